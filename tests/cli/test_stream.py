"""`oncestream stream`: MapR's words for streams, their topics and their cursors."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from tests.cli.in_process import Cli
from tests.client.kit import wait_until

TIMEOUT_S = 60


@pytest.fixture
def stream(cli: Cli, name: str) -> str:
    path = f"/{name}/pump"
    cli.ok("stream", "create", path, "--defaultpartitions", "2", "--ttl", "86400")
    return path


def test_the_attributes_of_a_stream_in_all_forms(cli: Cli, stream: str) -> None:
    cli.ok("stream", "topic", "create", stream, "warning")
    expected = {
        "path": stream,
        "ttl": 86400,
        "defaultpartitions": 2,
        "autocreate": True,
        "compression": "producer",
        "timestamptype": "create",
        "compact": False,
        "mincompactionlag": 0,
        "maxcompactionlag": None,
        "deletelag": 86400000,
        "replicas": None,
        "produceperm": "p",
        "consumeperm": "p",
        "topicperm": "p",
        "copyperm": "p",
        "adminperm": "p",
        "owner": "",
        "topics": ["warning"],
    }
    assert cli.json("stream", "info", stream) == expected
    assert cli.json("stream", "list", stream.rpartition("/")[0]) == [expected]
    assert cli.ok("stream", "info", stream).splitlines()[:4] == [
        f"path               {stream}",
        "ttl                86400",
        "defaultpartitions  2",
        "autocreate         yes",
    ]
    assert cli.ok("stream", "list", stream) == (
        "path                      topics      ttl   defaultpartitions   autocreate   owner\n"
        "──────────────────────────────────────────────────────────────────────────────────\n"
        f"{stream}   warning   86400                   2   yes          -\n"
    )


def test_an_edit_reaches_the_topics_and_a_copy_takes_the_attributes(cli: Cli, stream: str) -> None:
    cli.ok("stream", "topic", "create", stream, "warning")
    edited = cli.json(
        "stream", "edit", stream, "--ttl", "0", "--compression", "lz4", "--compact", "--no-autocreate"
    )
    assert [edited[word] for word in ("ttl", "compression", "compact", "autocreate")] == [
        0,
        "lz4",
        True,
        False,
    ]
    info = ("stream", "topic", "info", stream, "warning")
    wait_until(lambda: cli.json(*info)["configs"]["retention.ms"] == "-1")
    assert cli.json(*info)["configs"]["compression.type"] == "lz4"
    copied = cli.json("stream", "create", f"{stream}-2", "--copymetafrom", stream, "--ttl", "5")
    assert [copied[word] for word in ("ttl", "compression", "compact")] == [5, "lz4", True]


def test_topics_of_a_stream(cli: Cli, stream: str) -> None:
    kafka_name = stream[1:].replace("/", ".") + ".warning"
    cli.ok("stream", "topic", "create", stream, "warning")
    cli.ok("stream", "topic", "create", stream, "error", "--partitions", "1")
    cli.ok("stream", "topic", "edit", stream, "warning", "--partitions", "3")
    assert cli.json("stream", "topic", "list", stream)[1] == {
        "topic": "warning",
        "kafka_topic": kafka_name,
        "partitions": 3,
    }
    assert cli.ok("stream", "topic", "list", stream).splitlines()[0].split() == [
        "topic",
        "kafka_topic",
        "partitions",
    ]
    info = cli.json("stream", "topic", "info", stream, "warning")
    assert (info["strays"], len(info["partitions"]), info["kafka_topic"]) == ({}, 3, kafka_name)
    cli.refused(9, "stream", "topic", "delete", stream, "error")
    cli.ok("stream", "topic", "delete", stream, "error", "--yes")
    wait_until(lambda: cli.json("stream", "info", stream)["topics"] == ["warning"])


def test_records_cursors_and_assignments_by_stream_names(
    cli: Cli, stream: str, name: str, bootstrap: str
) -> None:
    cli.ok("stream", "topic", "create", stream, "warning", "--partitions", "1")
    cli.ok("produce", f"{stream}:warning", stdin="1\n2\n3\n")
    assert cli.ok("consume", f"{stream}:warning", "--group", name, "--max", "1") == "1\n"
    [cursor] = cli.json("stream", "cursor", "list", stream, "--consumergroup", name)
    assert (cursor["topic"], cursor["offset"], cursor["lag"]) == ("warning", 1, 2)
    reset = ("stream", "cursor", "reset", stream, "--consumergroup", name, "--topic", "warning")
    for to, after in (("latest", 3), ("offset:2", 2), ("time:0", 0)):
        assert cli.json(*reset, "--to", to, "--yes")[0]["after"] == after
    cli.refused(9, *reset, "--to", "latest")
    settings = {"bootstrap.servers": bootstrap, "group.id": name, "client.id": "reader"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([stream[1:].replace("/", ".") + ".warning"])
        assert consumer.poll(TIMEOUT_S) is not None
        [row] = cli.json("stream", "assign", "list", stream)
        assert (row["group"], row["topic"], row["partition"], row["client_id"]) == (
            name,
            "warning",
            0,
            "reader",
        )
    finally:
        consumer.close()
    assert cli.json("stream", "cursor", "delete", stream, "--yes")[0]["group"] == name
    assert cli.json("stream", "cursor", "list", stream) == []


def test_purge_and_delete_are_shown_first(cli: Cli, stream: str) -> None:
    cli.ok("stream", "topic", "create", stream, "warning", "--partitions", "1")
    cli.ok("produce", f"{stream}:warning", stdin="1\n2\n")
    shown = cli("stream", "purge", stream, "--everything", "--dry-run")
    assert shown.err == f"would remove records 0 to 1 of {stream}:warning-0\n"
    assert cli.json("stream", "purge", stream) == []
    gone = {"topic": "warning", "partition": 0, "first": 0, "until": 2}
    assert cli.json("stream", "purge", stream, "--everything", "--yes") == [gone]
    assert cli.ok("consume", f"{stream}:warning") == ""
    assert cli("stream", "delete", stream, "--dry-run").err == (
        f"would delete topic {stream}:warning and all its records\n"
        f"would delete stream {stream} and its 0 access rules\n"
    )
    cli.refused(9, "stream", "delete", stream)
    cli.ok("stream", "delete", stream, "--yes")
    assert f"there is no stream {stream}" in cli.refused(5, "stream", "info", stream)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create", "pump"], "the path of a stream begins with /"),
        (["create", "/a/../b"], "'..' holds more than"),
        (["create", "/ä"], "holds more than"),
        (["create", "/" + "x" * 249], "249 are allowed"),
        (["create", "/oncestream/x"], "is reserved"),
        (["create", "/a", "--ttl", "-1"], "ttl"),
        (["create", "/a", "--compression", "rar"], "compression"),
        (["list", "apps"], "a path begins with /"),
        (["topic", "create", "/a", "b:c"], "holds more than"),
        (["cursor", "reset", "/a", "--consumergroup", "g", "--to", "now"], "it is none of"),
    ],
)
def test_bad_input_is_refused(embedded_cli: Cli, arguments: list[str], told: str) -> None:
    assert told in embedded_cli.refused(2, "stream", *arguments)
