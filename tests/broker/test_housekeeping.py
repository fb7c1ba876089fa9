"""Retention, compaction, checkpoints and expiry, with a clock turned by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncestream.broker.clock import Clock
from oncestream.broker.housekeeping import Housekeeping
from oncestream.broker.node import Node
from oncestream.broker.partition import Partition
from oncestream.broker.settings import load_settings
from oncestream.machine import path_of
from oncestream.records.records import records_of
from oncestream.storage.disk import REAL_DISK, Disk
from tests.broker.kit import TIMEOUT_S, batch

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


def test_a_stop_waits_for_a_compaction_that_is_running(tmp_path: Path) -> None:
    order: list[str] = []

    async def scenario(s: Setup) -> None:
        threads = HeldThreads(lambda: order.append("compacted"))
        s.node.loop.set_default_executor(threads)
        partition = s.topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        for number in range(40):
            s.append(partition, b"key", b"%d" % number)
        await until(lambda: threads.were_asked)
        closing = asyncio.ensure_future(s.housekeeping.close())
        closing.add_done_callback(lambda _: order.append("closed"))
        for _ in range(20):
            await asyncio.sleep(0)
        threads.may_run.set()
        await closing
        assert order == ["compacted", "closed"]

    run(tmp_path, scenario, housekeeping_ms=10, durability="fsync")  # then flushes have threads of their own


def test_a_round_waits_for_the_disk_on_other_threads_only(tmp_path: Path) -> None:
    class NotingDisk(Disk):
        def __init__(self) -> None:
            self.synced: list[tuple[str, bool]] = []  # what, and whether on the loop's thread

        def sync(self, fd: int) -> None:
            self._note(path_of(fd))
            super().sync(fd)

        def sync_folder(self, folder: str | Path) -> None:
            self._note(str(folder))
            super().sync_folder(folder)

        def _note(self, path: str) -> None:
            self.synced.append((Path(path).name, threading.current_thread() is threading.main_thread()))

    disk = NotingDisk()

    async def scenario(s: Setup) -> None:
        compacted = s.topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        for number in range(40):
            s.append(compacted, b"key-%d" % (number % 3), b"%d" % number)
        disk.synced.clear()
        await s.housekeeping.round()
        names = {name for name, _ in disk.synced}
        assert {"recovery-point-offset-checkpoint.tmp", "cleaner-offset-checkpoint.tmp", "events-0"} <= names
        assert [name for name, on_loop in disk.synced if on_loop] == []

    run(tmp_path, scenario, disk=disk)


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
    tmp_path: Path, warnings_logged: Callable[[], list[str]]
) -> None:
    class FailsOnce(Housekeeping):
        failures = 0

        async def round(self) -> None:
            if not self.failures:
                self.failures += 1
                raise RuntimeError("this round fails")
            await super().round()

    async def scenario(s: Setup) -> None:
        partition = s.topic(retention_ms="1")
        s.append(partition, b"k", b"v")
        s.clock.at_ms += HOUR_MS
        await until(lambda: partition.log.start_offset == 1)

    run(tmp_path, scenario, FailsOnce, housekeeping_ms=10)
    assert warnings_logged() == ["housekeeping failed; it goes on with the next round"]


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
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(s: Setup) -> None:
        s.append(s.topic(), b"key", b"value")
        threads = HeldThreads()
        s.node.loop.set_default_executor(threads)
        round_ = asyncio.create_task(s.housekeeping.round())
        await until(lambda: threads.were_asked)
        s.node.delete_topic(s.node.topics["events"])
        threads.may_run.set()
        await round_

    run(tmp_path, scenario)
    assert "failed" not in caplog.text


class HeldThreads(ThreadPoolExecutor):
    """The loop's threads; what they are asked to do they begin when they may."""

    def __init__(self, on_done: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.were_asked = False
        self.may_run = threading.Event()
        self._on_done = on_done

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def held() -> Any:
            assert self.may_run.wait(TIMEOUT_S)
            result = fn(*args, **kwargs)
            self._on_done()
            return result

        self.were_asked = True
        return super().submit(held)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - it changes in another task or thread
            await asyncio.sleep(0.001)


def run(
    folder: Path,
    scenario: Callable[[Setup], Awaitable[None]],
    kind: type[Housekeeping] = Housekeeping,
    disk: Disk = REAL_DISK,
    **flags: object,
) -> None:
    async def main() -> None:
        clock = TurnedClock()
        settings = load_settings(environment={}, flags={"durability": "os", **flags, "data": folder})
        node = Node(settings, asyncio.get_running_loop(), clock, disk)
        housekeeping = kind(node)
        try:
            await scenario(Setup(node, clock, housekeeping))
        finally:
            await housekeeping.close()
            await node.close()

    asyncio.run(main())
