"""Which files are flushed when: the journal for all partitions, their own files when it is full or fails."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable, Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest

from oncestream.broker.clock import Clock
from oncestream.broker.node import Node, Topic
from oncestream.broker.settings import load_settings
from oncestream.machine import path_of
from oncestream.storage import journal
from oncestream.storage.disk import Disk
from oncestream.storage.journal import FILE_NAMES
from oncestream.wire.error_codes import KafkaError
from tests.broker.kit import TIMEOUT_S, batch
from tests.storage.kit import values_in

TOPIC = "events"
PARTITIONS = 4


class WatchedDisk(Disk):
    """Remembers the names of the files that were synced; a sync of some fails on command."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.failing = ""

    def sync(self, fd: int) -> None:
        path = path_of(fd)
        if self.failing and fnmatch(path, self.failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        name = os.path.basename(path)
        self.synced.append(name if name in FILE_NAMES else Path(path).parent.name)
        super().sync(fd)


def test_one_flush_of_the_journal_serves_all_partitions(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, *range(PARTITIONS))
        disk.synced.clear()
        await produce(topic, *range(PARTITIONS), 0, 1)
        assert disk.synced == [".journal-1"]
        assert [len(values_in(each.log)) for each in topic.partitions] == [3, 3, 2, 2]

    run(tmp_path, scenario)


def test_a_new_file_is_flushed_itself_and_so_is_a_large_batch(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0)
        assert disk.synced == ["events-0"]
        disk.synced.clear()
        await produce(topic, 0, value=b"x" * journal.BATCH_BYTES_MAX)
        assert disk.synced == ["events-0"]
        disk.synced.clear()
        await produce(topic, 0)
        assert disk.synced == [".journal-1"]

    run(tmp_path, scenario)


def test_a_full_journal_is_settled_and_the_files_take_turns(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        node.folder.journal.full_bytes = 2000
        await produce(topic, *range(PARTITIONS))
        for _ in range(60):
            await produce(topic, *range(PARTITIONS))
            await node.commits.drain()  # else a file grows until the other is free
        assert {".journal-0", ".journal-1", "events-0", "events-3"} <= set(disk.synced)
        assert all((tmp_path / name).stat().st_size < 3000 for name in FILE_NAMES)
        assert all(each.log.settled_offset > 40 for each in topic.partitions)

    run(tmp_path, scenario)


def test_many_partitions_are_settled_before_too_many_files_are_open(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        node.commits.unsettled_max = 3
        await produce(topic, *range(PARTITIONS))
        await produce(topic, 0, 1, 2)
        await node.commits.drain()
        assert [each.log.settled_offset for each in topic.partitions] == [2, 2, 2, 1]

    run(tmp_path, scenario)


def test_where_the_journal_fails_each_file_is_flushed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0, 1)
        disk.failing = "*/.journal-*"
        disk.synced.clear()
        await produce(topic, 0, 1)
        disk.failing = ""
        await produce(topic, 0, 1)
        assert sorted(disk.synced) == ["events-0", "events-0", "events-1", "events-1"]

    run(tmp_path, scenario)
    assert caplog.text.count("flush of the journal failed") == 1
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert not any((tmp_path / name).exists() for name in FILE_NAMES)


def test_what_cannot_be_settled_stays_in_the_journal_for_the_next_start(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0, 1)
        await produce(topic, 0, 0, 1)
        disk.failing = "*/events-0/*"
        node.commits.settle()
        await node.commits.drain()
        assert topic.partitions[0].log.failed is not None
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            await produce(topic, 0)
        await produce(topic, 1)
        disk.failing = ""

    run(tmp_path, scenario)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    (path,) = (tmp_path / "events-0").glob("*.log")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])

    async def after(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        assert [len(values_in(each.log)) for each in topic.partitions] == [3, 3, 0, 0]
        assert node.folder.journal.active

    run(tmp_path, after)


def test_what_the_journal_has_of_a_file_that_failed_is_not_written_over(tmp_path: Path) -> None:
    """A second flush of the file would go well, and yet the system may have thrown the data away."""

    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0, 1)
        await produce(topic, 0, 0, 1)
        disk.failing = "*/events-0/*"
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            await produce(topic, 0, value=b"x" * journal.BATCH_BYTES_MAX)
        disk.failing = ""
        for _ in range(2):
            node.commits.settle()
            await node.commits.drain()
            await produce(topic, 1)

    run(tmp_path, scenario)
    (path,) = (tmp_path / "events-0").glob("*.log")
    path.write_bytes(path.read_bytes()[:100])

    async def after(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        assert len(values_in(topic.partitions[0].log)) >= 3

    run(tmp_path, after)


def test_a_file_that_fails_while_it_is_flushed_twice_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0)
        await produce(topic, 0)
        disk.failing = "*"
        large = asyncio.create_task(produce(topic, 0, value=b"x" * journal.BATCH_BYTES_MAX))
        await asyncio.sleep(0)
        node.commits.settle()
        with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
            await large
        await node.commits.drain()

    run(tmp_path, scenario)
    assert caplog.text.count("flush failed topic=events partition=0") == 1


def test_settling_what_is_settled_already_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0)
        await produce(topic, 0)
        log = topic.partitions[0].log
        ticket = log.unsynced()
        assert ticket is not None
        ticket.run()
        log.synced(ticket)
        node.commits.settle()
        async with asyncio.timeout(TIMEOUT_S):
            await node.commits.drain()

    run(tmp_path, scenario)


def test_a_topic_deleted_before_it_is_settled_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0, 1)
        await produce(topic, 0, 1)
        node.delete_topic(topic)
        node.commits.settle()
        await node.commits.drain()
        assert node.folder.journal.active
        other = node.create_topic("other", 1, {})
        await produce(other, 0)
        await produce(other, 0)
        assert disk.synced[-1] == ".journal-0"

    run(tmp_path, scenario)
    assert "flush failed" not in caplog.text


def test_the_journal_of_a_broker_that_was_killed_is_used_and_gone_after_the_next_start(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "killed"

    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, *range(PARTITIONS))
        await produce(topic, *range(PARTITIONS))
        shutil.copytree(tmp_path / "data", copy)

    run(tmp_path / "data", scenario)
    for number in range(PARTITIONS):
        (path,) = (copy / f"events-{number}").glob("*.log")
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    async def after(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        assert [len(values_in(each.log)) for each in topic.partitions] == [2] * PARTITIONS
        assert not any((copy / name).exists() for name in FILE_NAMES)

    run(copy, after)


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_broker_without_the_need_has_no_journal(tmp_path: Path, durability: str) -> None:
    async def scenario(node: Node, topic: Topic, disk: WatchedDisk) -> None:
        await produce(topic, 0)
        await produce(topic, 0)
        assert any((tmp_path / name).exists() for name in FILE_NAMES) == (durability == "fsync")

    run(tmp_path, scenario, durability)


async def produce(topic: Topic, *numbers: int, value: bytes = b"v") -> None:
    """One record to each of these partitions, all at once; raises if one is not acknowledged."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[None]] = []

    def settle(answer: asyncio.Future[None], error: KafkaError | None) -> None:
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)

    for number in numbers:
        partition, answer = topic.partitions[number], loop.create_future()
        appended = partition.append(memoryview(bytearray(batch(value))))
        partition.when_synced(appended.last_offset + 1, partial(settle, answer))
        answers.append(answer)
    async with asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*answers)


def run(
    folder: Path,
    scenario: Callable[[Node, Topic, WatchedDisk], Awaitable[None]],
    durability: str = "fsync",
) -> None:
    async def main() -> None:
        disk = WatchedDisk()
        settings = load_settings(environment={}, flags={"data": folder, "durability": durability})
        node = Node(settings, asyncio.get_running_loop(), Clock(), disk)
        try:
            topic = node.topics.get(TOPIC) or node.create_topic(TOPIC, PARTITIONS, {})
            disk.synced.clear()
            await scenario(node, topic, disk)
        finally:
            disk.failing = ""
            await node.close()

    asyncio.run(main())
