"""`oncestream produce`: lines and JSON to records, alone and in transactions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import Cli
from tests.client.kit import wait_until


def read(cli: Cli, topic: str, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli.ok("consume", topic, "--format", "json", *options).splitlines()]


def values(cli: Cli, topic: str, *options: str) -> list[str]:
    return cli.ok("consume", topic, *options).splitlines()


@pytest.fixture
def topic(cli: Cli, name: str) -> str:
    cli.ok("topic", "create", name, "--partitions", "2", "-c", "retention.ms=-1")
    return name


def test_each_line_is_a_record_and_a_summary_stands_on_standard_error(cli: Cli, topic: str) -> None:
    ended = cli("produce", topic, "--partition", "1", stdin="a\nb c\r\n\nd")
    assert (ended.exit_code, ended.out) == (0, "")
    assert re.fullmatch(rf"4 records written to {topic} in \d+\.\d s\n", ended.err)
    assert values(cli, topic, "--partition", "1") == ["a", "b c", "", "d"]


def test_the_summary_as_json(cli: Cli, topic: str) -> None:
    summary = cli.json(
        "produce", topic, "--transaction-size", "2", "--skip-bad", "--json", stdin='{"value":1}\nx\n' * 3
    )
    seconds = summary.pop("seconds")
    assert isinstance(seconds, float)
    assert summary == {"topics": [topic], "records": 3, "skipped": 3, "transactions": 2}


def test_keys_headers_and_partition_come_from_options(cli: Cli, topic: str) -> None:
    cli.ok(
        "produce",
        topic,
        "--key-separator",
        "=>",
        "--header",
        "a=b=c",
        "--partition",
        "0",
        stdin="k=>v\n=>w\n",
    )
    cli.ok(
        "produce",
        topic,
        "--key",
        "fixed",
        "--compression",
        "zstd",
        "--acks",
        "1",
        "--partition",
        "0",
        stdin="x\n",
    )
    wait_until(lambda: len(read(cli, topic)) == 3)  # acks=1 does not wait for what makes it visible
    rows = read(cli, topic)
    assert [(row["key"], row["value"]) for row in rows] == [("k", "v"), ("", "w"), ("fixed", "x")]
    assert rows[0]["headers"] == [{"key": "a", "value": "b=c"}]


def test_json_has_every_field(cli: Cli, topic: str) -> None:
    lines = [
        {
            "key": "k",
            "value": {"a": [1, "ü"]},
            "headers": {"h": "v", "n": None},
            "partition": 1,
            "timestamp": 12345,
        },
        {"value": None, "key_base64": "/w==", "partition": 1},
        {"value_base64": "AP8=", "partition": 1, "headers": [{"key": "b", "value_base64": "/w=="}]},
    ]
    cli.ok("produce", topic, "--json", "--keep-partition", stdin="\n".join(map(json.dumps, lines)))
    first, second, third = read(cli, topic)
    assert first == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": 12345,
        "key": "k",
        "value": '{"a":[1,"ü"]}',
        "headers": [{"key": "h", "value": "v"}, {"key": "n", "value": None}],
    }
    assert (second["key"], second["key_base64"], second["value"]) == (None, "/w==", None)
    assert (third["value"], third["value_base64"]) == (None, "AP8=")
    assert third["headers"] == [{"key": "b", "value": None, "value_base64": "/w=="}]


def test_what_consume_prints_can_be_sent_again(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--key", "k", "--header", "h=1", stdin=b"\xff\xfe\nplain\n")
    copied = cli.ok("consume", topic, "--format", "json")
    cli.ok("topic", "create", f"{topic}-copy", "--partitions", "2")
    cli.ok("produce", f"{topic}-copy", "--json", "--keep-partition", stdin=copied)
    assert [{**row, "topic": topic} for row in read(cli, f"{topic}-copy")] == read(cli, topic)


def test_a_copy_into_a_topic_with_fewer_partitions_has_every_record(cli: Cli, name: str) -> None:
    cli.ok("topic", "create", name, "--partitions", "4")
    for partition in range(4):
        cli.ok("produce", name, "--partition", str(partition), stdin=f"{partition}\n" * 5)
    records = cli.ok("consume", name, "--format", "json")
    cli.ok("produce", f"{name}-new", "--json", stdin=records)
    assert sorted(values(cli, f"{name}-new")) == sorted(values(cli, name))

    cli.ok("topic", "create", f"{name}-two", "--partitions", "2")
    keep = ("--json", "--keep-partition")
    told = cli.refused(2, "produce", f"{name}-two", *keep, "--transaction-size", "0", stdin=records)
    assert f"{name}-two has no partition 2" in told or f"{name}-two has no partition 3" in told
    assert values(cli, f"{name}-two") == []
    assert "none" in cli.refused(5, "produce", f"{name}-none", *keep, stdin=records)
    assert f"{name}-none" not in cli.ok("topic", "list")


def test_a_topic_of_a_stream_that_is_not_there_is_not_made(cli: Cli, name: str) -> None:
    assert f"there is no stream /{name}" in cli.refused(5, "produce", f"/{name}:w", stdin="x")
    line = json.dumps({"topic": f"/{name}:w", "value": 1})
    assert f"line 1 of the input is wrong: there is no stream /{name}" in cli.refused(
        2, "produce", "--json", stdin=line
    )
    assert f"there is no stream /{name}" in cli.refused(5, "topic", "create", f"/{name}:w")
    assert f"{name}.w" not in cli.ok("topic", "list")
    cli.ok("stream", "create", f"/{name}", "--defaultpartitions", "3")
    cli.ok("produce", "--json", stdin=line)
    assert values(cli, f"/{name}:w") == ["1"]
    assert len(cli.json("topic", "offsets", f"{name}.w")) == 3


def test_objects_name_their_topics_where_the_command_names_none(cli: Cli, topic: str) -> None:
    lines = [{"topic": topic, "value": "1"}, {"topic": f"{topic}-b", "value": "2"}]
    cli.ok("topic", "create", f"{topic}-b")
    cli.ok("produce", "--json", stdin="\n".join(map(json.dumps, lines)))
    assert (values(cli, topic), values(cli, f"{topic}-b")) == (["1"], ["2"])
    assert "no field 'topic'" in cli.refused(2, "produce", "--json", stdin='{"value": 1}')


def test_a_bad_line_leaves_nothing_of_its_transaction(cli: Cli, topic: str) -> None:
    told = cli.refused(
        2, "produce", topic, "--json", "--transaction-size", "2", stdin='{"value":1}\n' * 3 + "{}\n"
    )
    assert "line 4 of the input is wrong: it has no field 'value'; 2 records were written before it" in told
    cli.await_end_of_transactions(topic)
    assert values(cli, topic) == ["1", "1"]
    cli.refused(2, "produce", topic, "--json", "--transaction-size", "0", stdin='{"value":2}\n' * 9 + "[]")
    cli.await_end_of_transactions(topic)
    assert values(cli, topic) == ["1", "1"]


def test_without_transactions_a_bad_line_says_what_was_written(cli: Cli, topic: str) -> None:
    told = cli.refused(2, "produce", topic, "--key-separator", ":", stdin="a:1\nb:2\nc\nd:4\n")
    assert (
        "line 3 of the input is wrong: there is no key separator ':'; 2 records were written before it"
        in told
    )
    assert sorted(values(cli, topic)) == ["1", "2"]


BAD_LINES = [
    ("x", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("1", "not a JSON object"),
    ('{"value": 1, "colour": 2}', "unknown field 'colour'"),
    ('{"value_base64": "?"}', "value_base64 is not base64"),
    ('{"value_base64": 5}', "value_base64 is not base64"),
    ('{"value": 1, "partition": -1}', "partition is not a whole number"),
    ('{"value": 1, "partition": true}', "partition is not a whole number"),
    ('{"value": 1, "timestamp": "now"}', "timestamp is not a whole number"),
    ('{"value": 1, "headers": 5}', "headers is neither an object nor a list"),
    ('{"value": 1, "headers": [1]}', "a header is an object with key and value"),
    ('{"value": 1, "topic": "a b"}', "is not a good name"),
    ('{"value": 1, "topic": 3}', "topic is not a text"),
    ('{"value": "\\ud800"}', "value is not Unicode text"),
    (json.dumps({"value": "x" * 2_000_000}), "bytes are more than the client sends"),
]


@pytest.mark.parametrize(("line", "told"), BAD_LINES, ids=[told for _, told in BAD_LINES])
def test_a_line_that_is_wrong_is_named(embedded_cli: Cli, name: str, line: str, told: str) -> None:
    err = embedded_cli.refused(2, "produce", name, "--json", stdin=line)
    assert "line 1 of the input is wrong" in err
    assert told in err


BAD_OPTIONS = [
    (["produce"], "it needs a topic"),
    (["produce", "t", "--json", "--key-separator", ":"], "with --json the key is a field"),
    (["produce", "t", "--key-separator", ""], "it is empty"),
    (["produce", "t", "--acks", "1", "--transaction-size", "5"], "transactions need --acks all"),
    (["produce", "t", "--header", "x"], "it is not name=value"),
    (["produce", "t", "--file", "/no/such/file"], "cannot be read"),
    (["produce", "t", "--rate", "0"], "--rate"),
    (["produce", "t", "--keep-partition"], "it needs --json"),
    (["produce", "t", "--json", "--keep-partition", "--partition", "1"], "each object names its own"),
    (["produce", "/a"], "it names a stream and no topic"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD_OPTIONS)
def test_options_that_cannot_be_are_refused(embedded_cli: Cli, arguments: list[str], told: str) -> None:
    assert told in embedded_cli.refused(2, *arguments)


def test_a_file_is_read_and_a_rate_kept(cli: Cli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x\n" * 40)
    summary = cli.json("produce", topic, "--file", str(tmp_path / "lines"), "--rate", "20")
    assert summary["records"] == 40
    assert summary["seconds"] >= 40 / 20, "without a rate half a second is enough"


def test_a_partition_that_is_not_there_is_told(cli: Cli, topic: str) -> None:
    assert f"there is no topic or partition {topic}-7" in cli.refused(
        5, "produce", topic, "--partition", "7", stdin="x"
    )


def test_a_broker_that_does_not_answer_is_told(tmp_path: Path) -> None:
    settings = tmp_path / "short.properties"
    settings.write_text("bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=300\n")
    told = Cli(tmp_path).refused(5, "produce", "t", "--command-config", str(settings), stdin="x")
    assert "no answer from 127.0.0.1:1" in told
