"""docs/cli.md has every command and every exit code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import oncestream.errors
from oncestream.cli.app import NOUNS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Every command below, with the long names of its options."""
    below = getattr(command, "commands", None)
    if below is None:
        options = [
            name
            for each in command.params
            for name in [*each.opts, *each.secondary_opts]
            if name.startswith("--")
        ]
        yield path, options
    for name, each in (below or {}).items():
        yield from commands(each, (*path, name))


ALL = [
    found
    for noun in NOUNS
    for found in commands(typer.main.get_command(import_module(f"oncestream.cli.{noun}").app), (noun,))
]


def test_every_command_has_an_example() -> None:
    assert len(ALL) > 40
    missing = [
        path for path, _ in ALL if not re.search(rf"^\$?.*oncestream {' '.join(path)}\b", PAGE, re.MULTILINE)
    ]
    assert missing == []


def test_every_example_is_of_a_command_and_options_that_exist() -> None:
    known = dict(ALL)
    for line in re.findall(r"oncestream ([a-z][^\n|`]*)", PAGE):
        words = line.split()
        path = max((each for each in known if tuple(words[: len(each)]) == each), key=len, default=None)
        if path is None:
            assert words[0] in NOUNS or words[0] == "broker", line
            continue
        unknown = {word for word in words if re.fullmatch(r"--[a-z-]+", word)} - set(known[path])
        assert unknown - {"--help"} == set(), line


def test_every_exit_code_is_in_the_table() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    used = {
        each.exit_code
        for each in vars(oncestream.errors).values()
        if isinstance(each, type) and issubclass(each, oncestream.errors.OncestreamError)
    }
    assert used <= listed
