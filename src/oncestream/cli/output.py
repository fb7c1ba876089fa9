"""What commands print: one list of rows, or one object, as a table, as JSON or as YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

Row = Mapping[str, Any]

NOTHING: Final = "-"
YAML_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
WIDE: Final = 10_000  # columns where no terminal limits them: a script must find whole words


class Output(StrEnum):
    """How a command prints its answer."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="Form of the answer.")]


def show(rows: Sequence[Row], output: Output, columns: Sequence[str]) -> None:
    """Prints rows that have these keys; JSON and YAML are a list of objects."""
    if output is Output.TABLE:
        _print_table(columns, [[row[column] for column in columns] for row in rows])
    else:
        typer.echo(_structured([dict(row) for row in rows], output))


def show_one(row: Row, output: Output) -> None:
    """Prints one object; its table has a line per key, and no line for a list of objects in it."""
    if output is not Output.TABLE:
        typer.echo(_structured(dict(row), output))
        return
    width = max(map(len, row), default=0)
    for key, value in row.items():
        if not _is_rows(value):
            typer.echo(f"{key:<{width}}  {_cell(value)}")
    for key, value in row.items():
        if _is_rows(value) and value:
            typer.echo(f"\n{key}:")
            _print_table(list(value[0]), [list(each.values()) for each in value])


def to_yaml(value: object, indent: int = 0) -> str:
    """YAML of what JSON can hold; texts are quoted as in JSON, which YAML reads alike."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "\n".join(f"{pad}{_yaml_key(key)}:{_yaml_inner(each, indent)}" for key, each in value.items())
    if isinstance(value, list) and value:
        return "\n".join(f"{pad}- {to_yaml(each, indent + 1).lstrip()}" for each in value)
    return pad + json.dumps(value, ensure_ascii=False)


def _yaml_inner(value: object, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + to_yaml(value, indent + 1)
    return " " + to_yaml(value)


def _yaml_key(key: str) -> str:
    is_plain = key.isascii() and key.replace("_", "").isalpha() and key.lower() not in YAML_WORDS
    return key if is_plain else json.dumps(key, ensure_ascii=False)


def _structured(value: object, output: Output) -> str:
    if output is Output.YAML:
        return to_yaml(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        numbers = [row[index] for row in rows if row[index] is not None]
        right = bool(numbers) and all(type(each) in (int, float) for each in numbers)
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(each)) for each in row))
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _cell(value: object) -> str:
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={_cell(each)}" for key, each in value.items())
    return str(value)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value) and bool(value)
