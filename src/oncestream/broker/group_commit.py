"""Group commit: when which file is flushed; one flush serves every append that came before it.

Mostly it is the journal that is flushed, for all partitions at once. A partition with something that the journal did
not take (it is large, or the journal failed) is flushed by its own file, as all are when the journal is full.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from oncestream.broker.partition import Partition
from oncestream.broker.sync_threads import FlushRunner
from oncestream.storage.durability import SyncTicket
from oncestream.storage.journal import Journal, JournalFlush
from oncestream.wire.error_codes import KafkaError

logger = logging.getLogger("oncestream.broker")

# Each partition whose files are not flushed keeps one of them open.
UNSETTLED_MAX: Final = 256


class GroupCommit:
    """One flush of the journal, and one per partition, runs at a time; what comes meanwhile goes with the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runner: FlushRunner, journal: Journal) -> None:
        self._loop = loop
        self._runner = runner
        self._journal = journal
        self.unsettled_max = UNSETTLED_MAX
        # Each in the order in which the partitions came.
        self._dirty: dict[Partition, None] = {}
        self._running: dict[Partition, None] = {}
        self._unsettled: dict[Partition, None] = {}  # with something in the journal that is not settled
        self._flushing = False  # the journal
        self._settling = False
        self._to_settle: list[Partition] = []
        self._scheduled = False
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    def request(self, partition: Partition) -> None:
        self._dirty[partition] = None
        if not self._scheduled:
            self._scheduled = True
            self._idle.clear()
            self._loop.call_soon(self._start)

    def settle(self) -> None:
        """Begins to flush the files of all partitions that are durable by the journal only."""
        if self._settling or not self._unsettled or not self._journal.switch():
            return
        self._to_settle, self._unsettled = list(self._unsettled | self._dirty), {}
        self._idle.clear()
        self._settling = True
        self._settle_next()

    async def drain(self) -> None:
        """Waits until everything appended so far is flushed."""
        await self._idle.wait()

    def close(self) -> None:
        self._runner.close()

    def _start(self) -> None:
        self._scheduled = False
        by_journal: list[Partition] = []
        for partition in [each for each in self._dirty if each not in self._running]:
            if partition.log.in_journal:
                by_journal.append(partition)
            else:
                del self._dirty[partition]
                if self._flush_file(partition, self._file_done):
                    self._running[partition] = None
        if by_journal and not self._flushing:
            for partition in by_journal:
                del self._dirty[partition]
                self._unsettled[partition] = None
            self._flush_journal(by_journal)
        if not (self._dirty or self._running or self._flushing or self._settling):
            self._idle.set()

    def _flush_file(self, partition: Partition, done: Callable[[Partition, SyncTicket], None]) -> bool:
        """Whether there is anything to flush."""
        ticket = partition.log.unsynced()
        if ticket is not None:
            self._runner.flush_file(ticket, partial(done, partition, ticket))
        return ticket is not None

    def _flush_journal(self, partitions: list[Partition]) -> None:
        self._flushing = True
        flush = self._journal.flush([partition.log.durability for partition in partitions])
        self._runner.flush_journal(flush, partial(self._journal_done, partitions, flush))

    def _journal_done(self, partitions: Sequence[Partition], flush: JournalFlush) -> None:
        self._flushing = False
        if flush.error is not None:
            logger.error(
                "flush of the journal failed: %s; each log is flushed by itself until the next start",
                flush.error,
            )
            self._journal.stop()
            self._dirty.update(dict.fromkeys(partitions))
        else:
            self._journal.synced(flush)
            for partition, end_offset in zip(partitions, flush.ends, strict=True):
                partition.log.journaled(end_offset)
                partition.on_synced()
            if self._journal.is_full or len(self._unsettled) >= self.unsettled_max:
                self.settle()
        if not self._scheduled:
            self._start()

    def _file_done(self, partition: Partition, ticket: SyncTicket) -> None:
        self._running.pop(partition, None)
        self._synced(partition, ticket)
        if not self._scheduled:
            self._start()

    def _settled(self, partition: Partition, ticket: SyncTicket) -> None:
        self._synced(partition, ticket)
        self._settle_next()

    def _settle_next(self) -> None:
        """One file at a time: there is no hurry, and the journal's flushes, which somebody waits for, come between."""
        while self._to_settle:
            if self._flush_file(self._to_settle.pop(), self._settled):
                return
        self._settling = False
        self._journal.freed()
        if not self._scheduled:
            self._start()

    def _synced(self, partition: Partition, ticket: SyncTicket) -> None:
        failed_before = partition.log.failed is not None  # two flushes of a file may fail: one line is enough
        try:
            partition.log.synced(ticket)
        except KafkaError as error:
            if not failed_before:
                logger.error(
                    "flush failed topic=%s partition=%d: %s", partition.topic, partition.index, error.message
                )
        partition.on_synced()
