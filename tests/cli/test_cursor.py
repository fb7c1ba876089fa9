"""`oncestream cursor`: lag that is right on transactional topics, resets, deletion."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import Consumer

from tests.cli.in_process import Cli

TIMEOUT_S = 60


@pytest.fixture
def topic(cli: Cli, name: str) -> str:
    """Three records, each in a transaction of its own, so that markers stand between them; the group read one."""
    cli.ok("topic", "create", name, "--partitions", "2")
    cli.ok("produce", name, "--partition", "0", "--transaction-size", "1", stdin="1\n2\n3\n")
    cli.await_end_of_transactions(name)
    cli.ok("consume", name, "--group", name, "--max", "1")
    return name


def test_lag_counts_records_and_not_markers(cli: Cli, topic: str) -> None:
    [row] = cli.json("cursor", "list", topic)
    assert row.pop("seconds") > 0
    assert row == {
        "group": topic,
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "end": 6,
        "lag": 2,
        "exact": True,
        "metadata": "",
    }
    table = cli.ok("cursor", "list", topic)
    assert re.sub(r" +[\d.]+$", "  AGE", table, flags=re.MULTILINE) == (
        "group               topic               partition   offset   end   lag   exact   seconds\n"
        "────────────────────────────────────────────────────────────────────────────────────────\n"
        f"{topic}   {topic}           0        1     6     2   yes  AGE\n"
    )
    assert row["group"] in [each["group"] for each in cli.json("cursor", "list", "--topic", topic)]


def test_a_reset_is_shown_first_and_done_with_yes(cli: Cli, topic: str) -> None:
    reset = ("cursor", "reset", topic, "--to", "latest")
    shown = cli(*reset, "--dry-run")
    assert shown.err.splitlines()[0] == f"would move the cursor of {topic} in {topic}-0 from 1 to 6"
    assert shown.out == (
        "group               topic               partition   before   after\n"
        "──────────────────────────────────────────────────────────────────\n"
        f"{topic}   {topic}           0        1       6\n"
        f"{topic}   {topic}           1        -       0\n"
    )
    cli.refused(9, *reset)
    assert cli.json("cursor", "list", topic)[0]["offset"] == 1
    assert cli.json(*reset, "--yes")[0] == {
        "group": topic,
        "topic": topic,
        "partition": 0,
        "before": 1,
        "after": 6,
    }
    assert cli.json("cursor", "list", topic)[0]["lag"] == 0


def test_the_places_of_a_reset(cli: Cli, topic: str) -> None:
    for to, expected in (
        ("earliest", 0),
        ("offset:2", 2),
        ("offset:99", 6),
        ("time:0", 0),
        ("time:2100-01-01", 6),
    ):
        [move, _] = cli.json("cursor", "reset", topic, "--to", to, "--topic", topic, "--yes")
        assert move["after"] == expected, to
        assert cli.json("cursor", "list", topic)[0]["offset"] == expected


def test_cursors_of_a_topic_or_the_whole_group_are_forgotten(cli: Cli, topic: str) -> None:
    told = cli("cursor", "delete", topic, "--dry-run").err
    assert told == f"would forget the cursor of {topic} at {topic}-0 (1)\nwould delete group {topic}\n"
    cli.refused(9, "cursor", "delete", topic)
    cli.ok("cursor", "delete", topic, "--yes")
    assert f"there is no consumer group {topic}" in cli.refused(5, "cursor", "list", topic)
    cli.ok("cursor", "reset", topic, "--to", "latest", "--topic", topic, "--yes")
    cli.ok("cursor", "delete", topic, "--topic", topic, "--yes")
    assert cli("cursor", "list", topic).out.count("\n") in (0, 2)


def test_a_group_with_live_members_is_not_moved(cli: Cli, topic: str, bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert consumer.poll(TIMEOUT_S) is not None
        told = cli.refused(7, "cursor", "reset", topic, "--to", "earliest", "--yes")
        assert f"consumer group '{topic}' has live members" in told
    finally:
        consumer.close()


def test_what_is_not_there_is_told(cli: Cli, name: str) -> None:
    assert "there is no consumer group" in cli.refused(5, "cursor", "list", name)
    assert "there is no consumer group" in cli.refused(5, "cursor", "delete", name, "--yes")
    assert "has no cursor; name topics by --topic" in cli.refused(
        2, "cursor", "reset", name, "--to", "latest"
    )
    assert "there is no topic" in cli.refused(5, "cursor", "reset", name, "--to", "latest", "--topic", name)


@pytest.mark.parametrize("to", ["", "soon", "offset:x", "-5", "committed", "time:"])
def test_places_that_cannot_be_are_refused(nowhere: Cli, to: str) -> None:
    assert "it is none of earliest, latest, offset:N, time:" in nowhere.refused(
        2, "cursor", "reset", "g", "--to", to
    )
