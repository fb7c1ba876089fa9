"""A broker without a network: its clock, its flushes and its crashes are the test's."""

from __future__ import annotations

import asyncio
import copy
import errno
import heapq
import itertools
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oncestream.broker.apis import APIS
from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.group_commit import GroupCommit
from oncestream.broker.later import Later
from oncestream.broker.node import Node
from oncestream.broker.partition import Partition
from oncestream.broker.settings import BrokerSettings, Durability
from oncestream.machine import path_of
from oncestream.records.batch import HEADER_SIZE, parse_header
from oncestream.records.control import marker_of
from oncestream.records.records import records_of
from oncestream.storage.disk import Disk
from oncestream.storage.journal import FILE_NAMES
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.schema import Message

TOPIC = "t"
PARTITIONS = 2


class HandClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000_000
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        return self.ms + self.wrong_by_ms

    def elapsed_ms(self) -> int:
        return self.ms


class HandDisk(Disk):
    """The test decides what a crash loses and where there is no room; the machine's own disk is not waited for."""

    def __init__(self) -> None:
        self.is_full: Callable[[str], bool] | None = None  # told the path of a file

    def write(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> int:
        self._check_room(fd)
        return super().write(fd, data, position)

    def write_parts(self, fd: int, parts: Sequence[memoryview | bytes], position: int) -> int:
        self._check_room(fd)
        return super().write_parts(fd, parts, position)

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: str | Path) -> None:
        pass

    def _check_room(self, fd: int) -> None:
        if self.is_full is not None and self.is_full(path_of(fd)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(eq=False)
class Alarm:
    due_ms: float
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """Timers that ring when the test moves the clock."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Alarm]] = []
        self._count = itertools.count()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(self._clock.ms + delay * 1000, callback)
        heapq.heappush(self._heap, (alarm.due_ms, next(self._count), alarm))
        return alarm

    def run_due(self) -> None:
        while self._heap and self._heap[0][0] <= self._clock.ms:
            alarm = heapq.heappop(self._heap)[2]
            if not alarm.cancelled:
                alarm.callback()


@dataclass
class HandCommit:
    """Flushes a partition when the test says so."""

    dirty: dict[Partition, None] = field(default_factory=dict)

    def request(self, partition: Partition) -> None:
        self.dirty[partition] = None

    def flush(self, partition: Partition) -> None:
        self.dirty.pop(partition, None)
        ticket = partition.log.unsynced()
        if ticket is not None:
            ticket.run()
            partition.log.synced(ticket)
            partition.on_synced()

    def fail(self, partition: Partition) -> None:
        """The disk refuses the flush."""
        self.dirty.pop(partition, None)
        ticket = partition.log.unsynced()
        assert ticket is not None
        ticket.error = OSError(errno.EIO, "the disk is broken")
        with suppress(KafkaError):
            partition.log.synced(ticket)
        partition.on_synced()


class World:
    """One data folder, and the broker that runs on it at the moment."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = HandClock()
        self.disk = HandDisk()
        given: dict[str, Any] = {"transaction_partitions": 2, "offsets_partitions": 2, **settings}
        self._settings = BrokerSettings(data=folder, **given)
        self._start()
        if TOPIC not in self.node.topics:
            self.node.create_topic(TOPIC, PARTITIONS, {})

    def _start(self) -> None:
        self.loop = HandLoop(self.clock)
        self.commits = HandCommit()
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        commits = cast("GroupCommit", self.commits)
        self.node = Node(self._settings, loop, self.clock, self.disk, commits)

    # -- requests -----------------------------------------------------------------------------

    def send(self, request: Message, version: int) -> Later:
        """Handles a request; the answer may come later, or, after a crash, never."""
        call = Call(self.node, version, 0, "test", "nowhere:0")
        api = APIS[type(request).__api_key__]
        assert api.version_min <= version <= api.version_max
        answer = api.handler(
            copy.deepcopy(request), call
        )  # what came by the network is the handler's to change
        if isinstance(answer, Later):
            return answer
        later = Later()
        later.resolve(answer)
        return later

    def ask(self, request: Message, version: int) -> Any:
        """The answer, for which everything is flushed if need be."""
        answers: list[Any] = []
        later = self.send(request, version)
        later.then(answers.append)
        self.flush_all()
        assert answers, f"{type(request).__name__} was not answered"
        return answers[0]

    # -- time, flushes, crashes ---------------------------------------------------------------

    @property
    def partitions(self) -> list[Partition]:
        return [partition for topic in self.node.topics.values() for partition in topic.partitions]

    @property
    def data_partitions(self) -> list[Partition]:
        return self.node.topics[TOPIC].partitions

    def wait(self, ms: int) -> None:
        self.clock.ms += ms
        self.loop.run_due()

    def flush_all(self) -> None:
        while self.commits.dirty:
            self.commits.flush(next(iter(self.commits.dirty)))

    def kill(self) -> None:
        """SIGKILL: what was written stays."""
        self.node.folder.abandon()
        self._start()

    def lose_power(self, keep: Callable[[int], int]) -> None:
        """Of every partition's unflushed batches only the first `keep(how many there are)` stay.

        Nothing of the journal does: `HandCommit` flushes the partitions' own files, never the journal.
        """
        durable = self._settings.durability is Durability.FSYNC
        ends = [(p.log.folder, p.log.synced_offset if durable else p.log.end_offset) for p in self.partitions]
        self.node.folder.abandon()
        for name in FILE_NAMES:
            (self._settings.data / name).unlink(missing_ok=True)
        for folder, synced_offset in ends:
            _cut(folder, synced_offset, keep)
        self._start()

    def stop(self) -> None:
        self.node.folder.abandon()

    # -- what readers see ---------------------------------------------------------------------

    def committed(self, index: int) -> list[bytes]:
        """As a read_committed consumer sees the partition."""
        partition = self.data_partitions[index]
        upper = partition.last_stable_offset
        log = partition.log
        aborted = sorted((a.first_offset, a.producer_id) for a in log.aborted(0, upper))
        skipping: set[int] = set()
        seen: list[bytes] = []
        for batch in log.batches(log.start_offset, upper):
            header = parse_header(batch)
            while aborted and aborted[0][0] <= header.last_offset:
                skipping.add(aborted.pop(0)[1])
            if header.is_control:
                marker = marker_of(batch, header)
                assert marker is not None
                if not marker.commit:
                    skipping.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in skipping:
                seen += [record.value or b"" for record in records_of(batch, header)]
        return seen


def _cut(folder: Path, synced_offset: int, keep: Callable[[int], int]) -> None:
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        positions = []
        position = 0
        while position + HEADER_SIZE <= len(data):
            base_offset, length = struct.unpack_from(">qi", data, position)
            if base_offset >= synced_offset:
                positions.append(position)
            position += 12 + length
        if positions:
            positions.append(position)
            with path.open("r+b") as file:
                file.truncate(positions[keep(len(positions) - 1)])
