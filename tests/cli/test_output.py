"""Tables, JSON and YAML of the same rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncestream.cli.output import Output, show, show_one, to_yaml

ROWS: list[dict[str, Any]] = [
    {"name": "a", "count": 5, "ok": True, "tags": ["x", "y"], "more": None},
    {"name": "b: [c]", "count": None, "ok": False, "tags": [], "more": {"k": 1}},
]


def test_a_table_shows_the_columns_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, Output.TABLE, ("name", "count", "ok", "tags", "more"))
    assert capsys.readouterr().out == (
        "name     count   ok    tags   more\n"
        "──────────────────────────────────\n"
        "a            5   yes   x, y   -\n"
        "b: [c]       -   no    -      k=1\n"
    )


def test_a_table_without_rows_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    show([], Output.TABLE, ("name", "count"))
    assert capsys.readouterr().out.splitlines()[0] == "name   count"
    show([], Output.JSON, ("name", "count"))
    show([], Output.YAML, ("name", "count"))
    assert capsys.readouterr().out == "[]\n[]\n"


def test_long_cells_are_whole_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    show([{"name": "x" * 300}], Output.TABLE, ("name",))
    assert "x" * 300 in capsys.readouterr().out


def test_json_has_every_key_also_those_that_are_no_column(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, Output.JSON, ("name",))
    assert json.loads(capsys.readouterr().out) == ROWS


def test_yaml_of_lists_and_objects() -> None:
    assert to_yaml(
        {"rows": ROWS, "none": None, "empty": {}, "list": [[1, 2], []], "a.b": 'q"', "No": "No"}
    ) == (
        "rows:\n"
        '  - name: "a"\n'
        "    count: 5\n"
        "    ok: true\n"
        "    tags:\n"
        '      - "x"\n'
        '      - "y"\n'
        "    more: null\n"
        '  - name: "b: [c]"\n'
        "    count: null\n"
        "    ok: false\n"
        "    tags: []\n"
        "    more:\n"
        "      k: 1\n"
        "none: null\n"
        "empty: {}\n"
        "list:\n"
        "  - - 1\n"
        "    - 2\n"
        "  - []\n"
        '"a.b": "q\\""\n'
        '"No": "No"'
    )


def test_one_object_has_a_line_per_key_and_its_rows_below(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"name": "a", "rows": [{"n": 1}], "none": None}, Output.TABLE)
    assert capsys.readouterr().out == "name  a\nnone  -\n\nrows:\nn\n─\n1\n"
