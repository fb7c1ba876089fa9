"""Retention, compaction, checkpoints and expiry, with a clock turned by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from oncestream.broker.clock import Clock
from oncestream.broker.housekeeping import Housekeeping
from oncestream.broker.node import Node
from oncestream.broker.partition import Partition
from oncestream.broker.settings import load_settings
from oncestream.records.records import records_of
from oncestream.storage.compaction import CompactionJob
from oncestream.storage.sync import SyncTicket
from oncestream.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import TIMEOUT_S, Wire, batch, create_topic, produce, wait_until

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
SMALL_SEGMENTS = {"segment.bytes": "250"}  # two batches or so


class TurnedClock(Clock):
    def __init__(self) -> None:
        self.at_ms = START_MS

    def now_ms(self) -> int:
        return self.at_ms


class Setup(NamedTuple):
    node: Node
    clock: TurnedClock
    housekeeping: Housekeeping

    def topic(self, **configs: str) -> Partition:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        return self.node.create_topic("events", 1, {**SMALL_SEGMENTS, **named}).partitions[0]

    def append(
        self, partition: Partition, key: bytes, value: bytes | None, producer_id: int = -1, sequence: int = 0
    ) -> None:
        records = batch(
            value, key=key, timestamp_ms=self.clock.at_ms, producer_id=producer_id, sequence=sequence
        )
        partition.append(memoryview(bytearray(records)))


def test_records_older_than_the_retention_time_go(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        partition = s.topic(retention_ms=str(HOUR_MS))
        for number in range(10):
            s.append(partition, b"old", b"%d" % number)
        s.clock.at_ms += HOUR_MS // 2
        for number in range(10):
            s.append(partition, b"new", b"%d" % number)
        await s.housekeeping.round()
        assert partition.log.start_offset == 0
        s.clock.at_ms += HOUR_MS // 2 + 1
        await s.housekeeping.round()
        assert 8 <= partition.log.start_offset <= 10
        assert keys(partition)[-10:] == [b"new"] * 10
        s.clock.at_ms += HOUR_MS
        await s.housekeeping.round()
        assert partition.log.start_offset == partition.log.end_offset == 20

    run(tmp_path, scenario)


def test_a_log_larger_than_its_retention_size_loses_its_oldest_segments(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        partition = s.topic(retention_bytes="1000")
        for number in range(50):
            s.append(partition, b"k", b"%d" % number)
        await s.housekeeping.round()
        assert 1000 <= partition.log.size_bytes < 1250
        assert partition.log.start_offset > 30

    run(tmp_path, scenario)


def test_compaction_keeps_the_last_value_of_every_key_at_its_offset(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        partition = s.topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        for number in range(40):
            s.append(partition, b"key-%d" % (number % 3), b"%d" % number)
        await s.housekeeping.round()
        kept = dict(zip(keys(partition), offsets(partition), strict=False))
        assert kept == {b"key-0": 39, b"key-1": 37, b"key-2": 38}
        assert len(offsets(partition)) < 10
        assert (partition.log.start_offset, partition.log.end_offset) == (0, 40)

    run(tmp_path, scenario)


def test_a_tombstone_goes_after_its_time(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        configs = {"min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "1000"}
        partition = s.topic(cleanup_policy="compact", **configs)
        s.append(partition, b"gone", b"value")
        s.append(partition, b"gone", None)
        for _ in range(6):
            s.append(partition, b"other", b"value")
        await s.housekeeping.round()
        assert keys(partition).count(b"gone") == 1
        s.clock.at_ms += 2000
        for _ in range(6):
            s.append(partition, b"other", b"value")
        await s.housekeeping.round()
        assert b"gone" not in keys(partition)

    run(tmp_path, scenario)


def test_a_stop_waits_for_a_compaction_that_is_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_run, order = threading.Event(), threading.Event(), list[str]()
    real = CompactionJob.run

    def gated(job: CompactionJob) -> None:
        started.set()
        assert may_run.wait(20)
        real(job)
        order.append("compacted")

    monkeypatch.setattr(CompactionJob, "run", gated)

    async def scenario(s: Setup) -> None:
        partition = s.topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        for number in range(40):
            s.append(partition, b"key", b"%d" % number)
        async with asyncio.timeout(20):
            while not started.is_set():  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.001)
        closing = asyncio.ensure_future(s.housekeeping.close())
        closing.add_done_callback(lambda _: order.append("closed"))
        for _ in range(20):
            await asyncio.sleep(0)
        may_run.set()
        await closing

    run(tmp_path, scenario, housekeeping_ms=10)
    assert order == ["compacted", "closed"]


def test_checkpoints_are_written(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        partition = s.topic()
        s.append(partition, b"k", b"v")
        await s.node.commits.drain()
        await s.housekeeping.round()
        assert "events 0 1" in (tmp_path / "recovery-point-offset-checkpoint").read_text()

    run(tmp_path, scenario, durability="fsync")


def test_an_idle_producers_sequence_numbers_are_forgotten(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        partition = s.topic()
        s.append(partition, b"k", b"v", producer_id=5, sequence=0)
        s.clock.at_ms += 9_000
        await s.housekeeping.round()
        assert [producer.producer_id for producer in partition.log.producers()] == [5]
        s.clock.at_ms += 2_000
        await s.housekeeping.round()
        assert partition.log.producers() == []
        s.append(partition, b"k", b"v", producer_id=5, sequence=77)

    run(tmp_path, scenario, producer_id_expiration_ms=10_000)


def test_a_round_that_fails_is_logged_and_the_next_one_comes(
    start_broker: StartBroker,
    connect: Connect,
    warnings_logged: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = iter([RuntimeError("this round fails")])
    real = Housekeeping.round

    async def failing(self: Housekeeping) -> None:
        for error in rounds:
            raise error
        await real(self)

    monkeypatch.setattr(Housekeeping, "round", failing)
    broker = start_broker(housekeeping_ms=10)
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire, configs={"retention.ms": "1"}).name or ""
    produce(wire, topic, batch(b"x", timestamp_ms=1))
    wait_until(lambda: earliest(wire, topic) == 1)
    assert warnings_logged() == ["housekeeping failed; it goes on with the next round"]


def earliest(wire: Wire, topic: str) -> int:
    want = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])
    return wire.ask(ListOffsetsRequest(topics=[want]), 5, ListOffsetsResponse).topics[0].partitions[0].offset


def keys(partition: Partition) -> list[bytes | None]:
    return [
        record.key for one in partition.log.batches(partition.log.start_offset) for record in records_of(one)
    ]


def offsets(partition: Partition) -> list[int]:
    return [
        record.offset
        for one in partition.log.batches(partition.log.start_offset)
        for record in records_of(one)
    ]


def test_a_topic_deleted_while_it_is_flushed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started, may_run = threading.Event(), threading.Event()
    run_ticket = SyncTicket.run

    def run_late(ticket: SyncTicket) -> None:
        if threading.current_thread() is not threading.main_thread():  # the catalogue's is run at once
            started.set()
            assert may_run.wait(TIMEOUT_S)
        run_ticket(ticket)

    async def scenario(s: Setup) -> None:
        s.append(s.topic(), b"key", b"value")
        monkeypatch.setattr(SyncTicket, "run", run_late)
        round_ = asyncio.create_task(s.housekeeping.round())
        assert await asyncio.to_thread(started.wait, TIMEOUT_S)
        s.node.delete_topic(s.node.topics["events"])
        may_run.set()
        await round_

    run(tmp_path, scenario)
    assert "failed" not in caplog.text


def run(folder: Path, scenario: Callable[[Setup], Awaitable[None]], **flags: object) -> None:
    async def main() -> None:
        clock = TurnedClock()
        settings = load_settings(environment={}, flags={"durability": "os", **flags, "data": folder})
        node = Node(settings, asyncio.get_running_loop(), clock)
        housekeeping = Housekeeping(node)
        try:
            await scenario(Setup(node, clock, housekeeping))
        finally:
            await housekeeping.close()
            await node.close()

    asyncio.run(main())
