"""A log of old holds a batch whose records are not what its header says: commands leave its partition out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from oncestream import Broker
from oncestream.records.batch import parse_header, stamp
from oncestream.records.compression import Codec
from tests.cli.in_process import Cli
from tests.records.malformed import batch_of, record

COUNT_MAX = 2**31 - 1
DAMAGES = {
    "garbage": batch_of(bytes(range(200, 250)), 1),
    "compressed garbage": batch_of(b"garbage", 1, codec=Codec.ZSTD, is_compressed=True),
    "a false count": batch_of(record(), COUNT_MAX),
    "compressed, a false count": batch_of(record(), COUNT_MAX, codec=Codec.GZIP),
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> bytes:
    return DAMAGES[request.param]


@pytest.fixture
def cli(tmp_path: Path, damage: bytes) -> Iterator[Cli]:
    """Two partitions with three records each; in the first a damaged batch and one more record lie behind them."""
    data = tmp_path / "data"
    with Broker(data) as broker:
        cli = Cli(tmp_path, broker.bootstrap_servers)
        cli.ok("topic", "create", "events", "--partitions", "2")
        for partition in ("0", "1"):
            cli.ok("produce", "events", "--partition", partition, stdin="1\n2\n3\n")
    next_offset = 3 + parse_header(damage).last_offset_delta + 1
    with open(data / "events-0" / f"{0:020d}.log", "ab") as log:
        for offset, batch in ((3, damage), (next_offset, batch_of(record(), 1))):
            stored = bytearray(batch)
            stamp(memoryview(stored), offset, 0)
            log.write(stored)
    with Broker(data) as broker:
        yield Cli(tmp_path, broker.bootstrap_servers)


def commit(cli: Cli, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cli.environment["ONCESTREAM_BOOTSTRAP"], "group.id": group})
    offsets = [TopicPartition("events", partition, offset) for partition in (0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def told(err: str, next_offset: int) -> bool:
    """Which partition, where it is damaged and how to go past it."""
    cause, suggestion = err.splitlines()[-2:]
    return (
        cause.startswith("error: events-0 is damaged at offset 3, ")
        and f"--from offset:{next_offset}" in suggestion
    )


def test_commands_go_on_with_the_other_partitions_and_say_so(cli: Cli, damage: bytes) -> None:
    header = parse_header(damage)
    next_offset = 3 + header.next_offset
    commit(cli, "readers", 3)
    listed = cli("cursor", "list", "readers", "-o", "json")
    assert listed.exit_code == 8
    assert told(listed.err, next_offset)
    rows = [(each["partition"], each["lag"], each["exact"]) for each in json.loads(listed.out)]
    assert rows == [(0, next_offset + 1 - 3, False), (1, 0, True)]  # of the damaged one by offsets

    consumed = cli("consume", "events", "--format", "{partition}:{value} ")
    values = ["0:1", "0:2", "0:3", "1:1", "1:2", "1:3"]
    if header.count == COUNT_MAX:  # librdkafka reads the one record, and goes on behind it
        assert (consumed.exit_code, consumed.err) == (0, "")
        values += ["0:value"] * 2
    else:
        assert consumed.exit_code == 8
        assert told(consumed.err, next_offset)
    assert sorted(consumed.out.split()) == sorted(values)
    behind = ("--partition", "0", "--from", f"offset:{next_offset}", "--format", "{value}")
    assert cli.ok("consume", "events", *behind) == "value"
    from_time = cli("consume", "events", "--from", "time:1", "--format", "{partition}:{value} ")
    assert (from_time.exit_code, from_time.out) == (consumed.exit_code, consumed.out)
    past = ("--topic", "events", "--partition", "0", "--to", f"offset:{next_offset}", "--yes")
    cli.ok("cursor", "reset", "readers", *past)
    rows = [(each["offset"], each["lag"], each["exact"]) for each in cli.json("cursor", "list", "readers")]
    assert rows == [(next_offset, 1, True), (3, 0, True)]


def test_an_audit_compares_what_lies_before_the_damage(cli: Cli, damage: bytes) -> None:
    cli.ok("produce", "copies", stdin="1\n2\n3\n" * 2)
    audit = cli("verify", "--input", "events", "--output", "copies", "--key", "value", "-o", "json")
    assert audit.exit_code == 8
    assert told(audit.err, 3 + parse_header(damage).next_offset)
    report = json.loads(audit.out)
    assert (report["inputs"], report["outputs"]) == (6, 6)
    assert "events-0 is read up to offset 3: what lies behind may be told as extra" in report["notes"]
