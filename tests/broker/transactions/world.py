"""A broker without a network: its clock, its flushes and its crashes are the test's."""

from __future__ import annotations

import asyncio
import copy
import errno
import heapq
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from oncestream.broker.apis import APIS
from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.later import Later
from oncestream.broker.node import Node
from oncestream.broker.partition import Partition
from oncestream.broker.settings import BrokerSettings, Durability
from oncestream.machine import path_of
from oncestream.records.batch import parse_header
from oncestream.records.control import marker_of
from oncestream.records.records import records_of
from oncestream.storage.boot import FILE_NAME as BOOT_MARK
from oncestream.storage.durability import SyncTicket
from oncestream.storage.journal import JournalFlush
from oncestream.storage.log import Log
from oncestream.testing.disk import DiskFaults
from oncestream.wire.schema import Message
from tests.storage.power import PowerlessDisk

TOPIC = "t"
PARTITIONS = 2
# Small, so that little of what is written is much for the journal.
JOURNAL_BATCH_BYTES_MAX = 400
JOURNAL_FULL_BYTES = 4_000


class HandClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000_000
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        return self.ms + self.wrong_by_ms

    def elapsed_ms(self) -> int:
        return self.ms


class HandDisk(PowerlessDisk):
    """The test decides what a crash loses and where there is no room; the machine's own disk is not waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full: Callable[[str], bool] | None = None  # told the path of a file

    def write(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> int:
        self._check_room(fd)
        return super().write(fd, data, position)

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
    """Runs what it was given when the test says so: timers when it moves the clock, the rest in the next turn."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Alarm]] = []
        self._count = itertools.count()
        self._ready: deque[Callable[[], object]] = deque()
        self._is_busy = False

    def call_later(self, delay: float, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(self._clock.ms + delay * 1000, callback)
        heapq.heappush(self._heap, (alarm.due_ms, next(self._count), alarm))
        return alarm

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._ready.append(callback)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is done inside is one callback; what was to come soon comes after it."""
        if self._is_busy:
            yield
            return
        self._is_busy = True
        try:
            yield
            while self._ready:
                self._ready.popleft()()
        finally:
            self._is_busy = False

    def run_due(self) -> None:
        while self._heap and self._heap[0][0] <= self._clock.ms:
            alarm = heapq.heappop(self._heap)[2]
            if not alarm.cancelled:
                with self.turn():
                    alarm.callback()


@dataclass(eq=False)
class Job:
    """A flush that group commit has asked for. First a thread runs it, then the loop hears of it."""

    flush: SyncTicket | JournalFlush
    done: Callable[[], None]
    has_run: bool = False

    def run(self) -> None:
        assert not self.has_run
        self.flush.run()
        self.has_run = True

    def covers(self, log: Log) -> bool:
        if isinstance(self.flush, SyncTicket):
            return self.flush.source is log.durability
        return log.durability in self.flush.logs


class HandThreads:
    """Threads that do something when the test says so."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.jobs: list[Job] = []

    def flush_file(self, ticket: SyncTicket, done: Callable[[], None]) -> None:
        self.jobs.append(Job(ticket, done))

    def flush_journal(self, flush: JournalFlush, done: Callable[[], None]) -> None:
        self.jobs.append(Job(flush, done))

    def close(self) -> None:
        raise AssertionError("a world is killed, or stops")

    def finish(self, job: Job) -> None:
        """The thread is through with it, and the loop hears of it."""
        if not job.has_run:
            job.run()
        self.jobs.remove(job)
        with self._loop.turn():
            job.done()


class World:
    """One data folder, and the broker that runs on it at the moment."""

    def __init__(self, folder: Path, *, configs: Mapping[str, str] | None = None, **settings: Any) -> None:
        self.clock = HandClock()
        self.disk = HandDisk()
        self._is_held = False
        given: dict[str, Any] = {"transaction_partitions": 2, "offsets_partitions": 2, **settings}
        self._settings = BrokerSettings(data=folder, **given)
        self._start()
        if TOPIC not in self.node.topics:
            self.node.create_topic(TOPIC, PARTITIONS, configs or {})

    def _start(self) -> None:
        self.loop = HandLoop(self.clock)
        self.threads = HandThreads(self.loop)
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        with self.loop.turn():
            self.node = Node(self._settings, loop, self.clock, self.disk, self.threads)
        self.node.folder.journal.batch_bytes_max = JOURNAL_BATCH_BYTES_MAX
        self.node.folder.journal.full_bytes = JOURNAL_FULL_BYTES

    # -- requests -----------------------------------------------------------------------------

    def send(self, request: Message, version: int) -> Later:
        """Handles a request; the answer may come later, or, after a crash, never."""
        call = Call(self.node, version, 0, "test", "nowhere:0")
        api = APIS[type(request).__api_key__]
        assert api.version_min <= version <= api.version_max
        with self.together():
            # What came by the network is the handler's to change.
            answer = api.handler(copy.deepcopy(request), call)
        if isinstance(answer, Later):
            return answer
        later = Later()
        later.resolve(answer)
        return later

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is sent inside comes in one piece: the journal collects it, as a connection has it do."""
        journal = self.node.folder.journal
        is_outer = not self._is_held
        with self.loop.turn():
            if is_outer:
                self._is_held = True
                journal.hold()
            try:
                yield
            finally:
                if is_outer:
                    self._is_held = False
                    journal.let_go()

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
    def _is_durable(self) -> bool:
        return self._settings.durability is Durability.FSYNC

    def _is_flushed(self, partition: Partition) -> bool:
        log = partition.log
        return log.failed is not None or log.synced_offset == log.end_offset

    @property
    def partitions(self) -> list[Partition]:
        return [partition for topic in self.node.topics.values() for partition in topic.partitions]

    @property
    def data_partitions(self) -> list[Partition]:
        return self.node.topics[TOPIC].partitions

    def wait(self, ms: int) -> None:
        self.clock.ms += ms
        self.loop.run_due()

    @property
    def jobs(self) -> list[Job]:
        return self.threads.jobs

    def flush_all(self) -> None:
        while self.jobs:
            self.threads.finish(self.jobs[0])
        for partition in self.partitions if self._is_durable else ():
            assert self._is_flushed(partition), "somebody waits for a flush that nobody does"

    def flush(self, partition: Partition) -> None:
        """Makes durable what the partition holds: by its file alone, or by the journal with that of others."""
        while self._is_durable and not self._is_flushed(partition):
            assert self.jobs, "somebody waits for a flush that nobody does"
            # If none covers it, its flush comes after one of the journal that runs already.
            self.threads.finish(max(self.jobs, key=lambda job: job.covers(partition.log)))

    def flush_by_files(self) -> None:
        """From now on until the next start: so each partition can be flushed without the others."""
        self.node.folder.journal.stop()

    def fail(self, partition: Partition) -> None:
        """The disk refuses the flush of the partition's file, once."""
        self.disk.set_faults(DiskFaults(sync_errors=f"*/{partition.log.folder.name}/*"))
        self.flush(partition)
        self.disk.set_faults(DiskFaults())

    def kill(self) -> None:
        """SIGKILL: what was written stays."""
        self.node.folder.abandon()
        self._start()

    def lose_power(self, chance: Random | None = None) -> None:
        """Of what was not flushed chance decides what stays; without it, nothing does."""
        self.node.folder.abandon()
        data = self._settings.data
        self.disk.cut_power(data, chance)
        (data / BOOT_MARK).write_bytes(b"an earlier start of the machine")
        self.disk = HandDisk()
        self.disk.settle(data)
        self._start()

    def stop(self) -> None:
        self.node.folder.abandon()

    # -- what readers see ---------------------------------------------------------------------

    def streamed(self, index: int) -> list[bytes]:
        """What of the partition belongs to no transaction, as a read_uncommitted consumer sees it."""
        partition = self.data_partitions[index]
        return [
            record.value or b""
            for batch in partition.log.batches(partition.log.start_offset, partition.high_watermark)
            if not (header := parse_header(batch)).is_transactional
            for record in records_of(batch, header)
        ]

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
