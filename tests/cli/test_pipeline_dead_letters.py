"""`oncestream pipeline dead-letters`, on letters as pipelines write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.in_process import Cli


def letter(pipeline: str, error: str, origin: str | None, value: str, **more: str) -> str:
    facts = {"mine": "kept", "error": error, "pipeline": pipeline, "batch": "3", **more}
    if origin is not None:
        facts |= {"origin.topic": origin, "origin.partition": "0", "origin.offset": "7"}
    return json.dumps({"key": "k", "value": value, "headers": facts})


@pytest.fixture
def pipeline(cli: Cli, name: str) -> str:
    """Three dead letters of it, two of which have one cause, and one of another pipeline."""
    for topic in (f"{name}.in", f"{name}.dead"):
        cli.ok("topic", "create", topic)
    lines = [
        letter(name, "ValueError: row 3 has no amount", f"{name}.in", "a"),
        letter(name, "ValueError: row 12 has no amount", f"{name}.in", "b"),
        letter(name, "KeyError: 'at'", f"{name}.in", "c"),
        letter(f"{name}-other", "ValueError: row 3 has no amount", f"{name}.in", "d"),
    ]
    cli.ok("produce", f"{name}.dead", "--json", "--transaction-size", "0", stdin="\n".join(lines))
    cli.await_end_of_transactions(f"{name}.dead")
    return name


def listed(cli: Cli, name: str) -> dict[str, tuple[int, int]]:
    rows = cli.json("pipeline", "dead-letters", name, "--topic", f"{name}.dead")
    return {row["cause"]: (row["letters"], row["resent"]) for row in rows}


def consumed(cli: Cli, name: str) -> list[dict[str, Any]]:
    cli.await_end_of_transactions(f"{name}.in")
    return [json.loads(line) for line in cli.ok("consume", f"{name}.in", "--format", "json").splitlines()]


def resend(cli: Cli, name: str, *options: str) -> Any:
    answer = cli.json("pipeline", "dead-letters", name, "--topic", f"{name}.dead", "--resend", *options)
    cli.await_end_of_transactions(f"{name}.dead")
    return answer


def test_letters_of_one_cause_are_one_row_and_go_in_again_once_as_they_were(cli: Cli, pipeline: str) -> None:
    assert listed(cli, pipeline) == {"ValueError: row N has no amount": (2, 0), "KeyError: 'at'": (1, 0)}
    assert resend(cli, pipeline, "--cause", "no amount", "--dry-run") == []
    assert consumed(cli, pipeline) == []
    assert resend(cli, pipeline, "--cause", "no amount", "--yes") == [{"topic": f"{pipeline}.in", "sent": 2}]
    assert listed(cli, pipeline) == {"ValueError: row N has no amount": (0, 2), "KeyError: 'at'": (1, 0)}
    assert resend(cli, pipeline, "--cause", "no amount", "--yes") == []
    assert resend(cli, pipeline, "--letter", "0:2", "--yes") == [{"topic": f"{pipeline}.in", "sent": 1}]
    assert resend(cli, pipeline, "--yes") == []
    found = consumed(cli, pipeline)
    assert [record["value"] for record in found] == ["a", "b", "c"]
    assert {record["key"] for record in found} == {"k"}
    assert [record["headers"] for record in found] == [[{"key": "mine", "value": "kept"}]] * 3


def test_what_an_input_says_in_headers_of_the_same_names_is_its_own(embedded_cli: Cli, name: str) -> None:
    cli = embedded_cli
    for topic in (f"{name}.in", f"{name}.dead"):
        cli.ok("topic", "create", topic)
    own = {"resent": "0:0", "truncated": "1", "error": "mine", "pipeline": "p", "origin.topic": "elsewhere"}
    facts = {"error": "E", "pipeline": name, "batch": "3", "origin.topic": f"{name}.in"}
    headers = [{"key": key, "value": value} for part in (own, facts) for key, value in part.items()]
    lines = [letter(name, "E", f"{name}.in", "first"), json.dumps({"value": "second", "headers": headers})]
    cli.ok("produce", f"{name}.dead", "--json", stdin="\n".join(lines))
    assert listed(cli, name) == {"E": (2, 0)}
    assert resend(cli, name, "--yes") == [{"topic": f"{name}.in", "sent": 2}]
    [_, again] = consumed(cli, name)
    assert {each["key"]: each["value"] for each in again["headers"]} == own


def test_a_mark_lies_behind_its_letters_in_their_partition(embedded_cli: Cli, name: str) -> None:
    """Retention deletes from the front, so a letter goes before its mark."""
    cli = embedded_cli
    cli.ok("topic", "create", f"{name}.in")
    cli.ok("topic", "create", f"{name}.dead", "--partitions", "3")
    for partition in range(3):
        line = letter(name, "E", f"{name}.in", str(partition))
        cli.ok("produce", f"{name}.dead", "--json", "--partition", str(partition), stdin=line)
    resend(cli, name, "--yes")
    found = [json.loads(line) for line in cli.ok("consume", f"{name}.dead", "--format", "json").splitlines()]
    marks = {each["partition"]: each["headers"][1] for each in found if each["value"] is None}
    assert marks == {number: {"key": "resent", "value": f"{number}:0"} for number in range(3)}


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"origin": None}, "does not say which topic it came from"),
        ({"truncated": "5000000"}, "too large to be kept whole"),
        ({"origin": "nowhere-at-all"}, "nowhere-at-all"),
    ],
)
def test_one_letter_that_cannot_go_back_keeps_all_from_being_sent(
    embedded_cli: Cli, name: str, broken: dict[str, Any], says: str
) -> None:
    cli = embedded_cli
    for topic in (f"{name}.in", f"{name}.dead"):
        cli.ok("topic", "create", topic)
    bad = {"origin": f"{name}.in", **broken}
    lines = [letter(name, "E", f"{name}.in", "good"), letter(name, "E", bad.pop("origin"), "bad", **bad)]
    cli.ok("produce", f"{name}.dead", "--json", stdin="\n".join(lines))
    arguments = ("pipeline", "dead-letters", name, "--topic", f"{name}.dead")
    refused = cli(*arguments, "--resend", "--yes")
    assert refused.exit_code in (2, 5)
    assert says in refused.err
    assert consumed(cli, name) == []
    assert [row["resent"] for row in cli.json(*arguments)] == [0]


def test_what_is_wrong_is_said(embedded_cli: Cli, name: str) -> None:
    assert "no dead letter" in embedded_cli.refused(5, "pipeline", "dead-letters", name)
    assert "PARTITION:OFFSET" in embedded_cli.refused(2, "pipeline", "dead-letters", name, "--letter", "x")
    assert "--resend" in embedded_cli.refused(2, "pipeline", "dead-letters", name, "--yes")
