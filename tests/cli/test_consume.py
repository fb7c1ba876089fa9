"""`oncestream consume`: from where, to where, in which form, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncestream.cli.positions import WINDOW_MIN
from oncestream.cli.record_format import Record, record_format
from tests.cli.in_process import Cli
from tests.cli.kit import TIMEOUT_S, Command


@pytest.fixture
def topic(cli: Cli, name: str) -> str:
    """Two partitions; three records in the first, at the times 1000, 2000 and 3000; one in the second."""
    cli.ok("topic", "create", name, "--partitions", "2", "-c", "retention.ms=-1")
    lines = [f'{{"value": "{n}", "key": "k{n}", "partition": 0, "timestamp": {n}000}}' for n in (1, 2, 3)]
    cli.ok(
        "produce",
        name,
        "--json",
        "--keep-partition",
        stdin="\n".join([*lines, '{"value": "b", "partition": 1, "timestamp": 1500}']),
    )
    return name


RANGES = [
    ([], ["1", "2", "3", "b"]),
    (["--from", "latest"], []),
    (["--from", "offset:1"], ["2", "3"]),
    (["--from", "offset:99"], []),
    (["--from", "time:2000"], ["2", "3"]),
    (["--from", "time:1970-01-01T00:00:01.500Z"], ["2", "3", "b"]),
    (["--from", "time:2100-01-01"], []),
    (["--from", "-1"], ["3", "b"]),
    (["--from", "-99"], ["1", "2", "3", "b"]),
    (["--to", "end"], ["1", "2", "3", "b"]),
    (["--to", "offset:1"], ["1", "b"]),
    (["--from", "offset:1", "--to", "offset:2"], ["2"]),
    (["--to", "time:1970-01-01T00:00:02"], ["1", "b"]),
    (["--partition", "0"], ["1", "2", "3"]),
    (["--partition", "0", "--max", "2"], ["1", "2"]),
]


def test_ranges_are_read_and_then_it_ends(cli: Cli, topic: str) -> None:
    for options, expected in RANGES:
        assert sorted(cli.ok("consume", topic, *options).splitlines()) == expected, options


def test_several_topics_and_every_field(cli: Cli, topic: str) -> None:
    cli.ok("topic", "create", f"{topic}-b")
    cli.ok("produce", f"{topic}-b", "--header", "h=1", stdin="z\n")
    form = "{topic}\\t{partition} {offset} {key}={value} [{headers}]\\n"
    told = cli.ok("consume", topic, f"{topic}-b", "--format", form).splitlines()
    assert sorted(told) == sorted(
        [
            *(f"{topic}\t0 {n - 1} k{n}={n} []" for n in (1, 2, 3)),
            f"{topic}\t1 0 =b []",
            f"{topic}-b\t0 0 =z [h=1]",
        ]
    )


def test_the_json_and_yaml_of_a_record(cli: Cli, topic: str) -> None:
    line = (
        f'{{"topic": "{topic}", "partition": 1, "offset": 0, "timestamp": 1500, '
        '"key": null, "value": "b", "headers": []}\n'
    )
    assert cli.ok("consume", topic, "--partition", "1", "--format", "json") == line
    assert cli.ok("consume", topic, "--partition", "1", "-o", "json") == line
    assert cli.ok("consume", topic, "--partition", "1", "-o", "yaml") == f"- {line}"


def test_a_group_goes_on_where_it_was(cli: Cli, topic: str, name: str) -> None:
    read = ("consume", topic, "--partition", "0", "--group", name)
    assert cli.ok(*read, "--max", "2") == "1\n2\n"
    assert cli.ok(*read) == "3\n"
    assert cli.ok(*read) == ""
    assert cli.ok(*read, "--from", "earliest", "--max", "1") == "1\n"
    assert cli.ok(*read) == "2\n3\n"


def test_only_committed_records_are_read_unless_told_otherwise(
    cli: Cli, topic: str, name: str, bootstrap: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "gone", partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    producer.abort_transaction(TIMEOUT_S)
    cli.ok("produce", topic, "--partition", "1", "--transaction-size", "0", stdin="kept\n")
    cli.await_end_of_transactions(topic)
    assert cli.ok("consume", topic, "--partition", "1", "--group", name) == "b\nkept\n"
    assert cli.ok("consume", topic, "--partition", "1", "--uncommitted") == "b\ngone\nkept\n"
    [cursor] = cli.json("cursor", "list", name)
    assert (cursor["offset"], cursor["lag"]) == (cursor["end"], 0)


def test_the_last_records_are_those_that_a_reader_sees(
    cli: Cli, topic: str, name: str, bootstrap: str
) -> None:
    """Markers and aborted records take offsets; here more of them than are looked at first."""
    cli.ok("produce", topic, "--partition", "1", "--transaction-size", "1", stdin="c\nd\ne\n")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(WINDOW_MIN):
        producer.produce(topic, f"gone {number}", partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    producer.abort_transaction(TIMEOUT_S)
    cli.await_end_of_transactions(topic)

    def read(*options: str) -> list[str]:
        return cli.ok("consume", topic, "--partition", "1", *options).splitlines()

    assert read("--from", "-1") == ["e"]
    assert read("--from", "-3") == ["c", "d", "e"]
    assert read("--from", "-9") == ["b", "c", "d", "e"]
    assert read("--from", "-0") == []
    assert read("--from", "-2", "--uncommitted") == [f"gone {number}" for number in (62, 63)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--from", "yesterday"], "it is none of earliest, latest, committed, offset:N"),
        (["--from", "offset:-1"], "it is none of"),
        (["--from", "offset:99999999999999999999"], "it is none of"),
        (["--from", "time:noon"], "it is none of"),
        (["--from", "committed"], "it needs --group"),
        (["--to", "earliest"], "it is none of"),
        (["--to", "end", "--follow"], "with --follow the end is offset:N"),
        (["--to", "time:5", "--follow"], "with --follow the end is offset:N"),
        (["--format", "{colour}"], "the fields are topic, partition"),
        (["--format", "{value"], "expected '}'"),
        (["--format", "{value!r}"], "the fields are"),
        (["--format", "text"], "it is neither value nor json and has no field"),
        (["--max", "0"], "--max"),
    ],
)
def test_bad_options_are_refused(nowhere: Cli, options: list[str], told: str) -> None:
    assert told in nowhere.refused(2, "consume", "t", *options)


def test_what_is_not_there_is_told(cli: Cli, topic: str) -> None:
    assert "there is no topic or partition nothing" in cli.refused(5, "consume", "nothing")
    assert f"there is no topic or partition {topic}-2" in cli.refused(5, "consume", topic, "--partition", "2")


def test_binary_content_is_escaped() -> None:
    record = Record("t", 0, 5, None, b"\xff", b"a\x80b", (("h", None), ("i", b"\xfe")))
    assert record_format("value")(record) == "a\\x80b\n"
    assert record_format("{key}|{value}|{headers}|{timestamp}")(record) == "\\xff|a\\x80b|h=,i=\\xfe|"
    assert '"value": null, "value_base64": "YYBi"' in record_format("json")(record)


def test_it_follows_until_it_is_interrupted(cli: Cli, topic: str, tmp_path: Path) -> None:
    arguments = ["consume", topic, "--partition", "0", "--follow", "--group", topic]
    following = Command(*arguments, environment={**cli.environment})
    try:
        assert [following.read_line() for _ in range(3)] == ["1\n", "2\n", "3\n"]
        cli.ok("produce", topic, "--partition", "0", stdin="4\n")
        assert following.read_line() == "4\n"
        following.signal(signal.SIGINT)
        ended = following.end()
        assert (ended.exit_code, ended.err) == (0, "")
    finally:
        following.close()
    assert cli.json("cursor", "list", topic)[0]["offset"] == 4


def test_a_reader_that_has_enough_ends_it_quietly(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "--partition", "0", stdin="".join(f"{n}\n" for n in range(50_000)))
    command = [sys.executable, "-m", "oncestream.cli.main", "consume", topic, "--partition", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **cli.environment}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT_S) == 0
