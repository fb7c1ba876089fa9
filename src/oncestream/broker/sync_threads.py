"""Where flushes run: on threads of their own, so that the loop never waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from oncestream.storage.durability import SyncTicket
from oncestream.storage.journal import JournalFlush

_Job = tuple[SyncTicket | JournalFlush, Callable[[], None]]  # for a thread; for the loop, afterwards


class FlushRunner(Protocol):
    """Runs each flush somewhere else, and calls back on the loop when it is through."""

    def flush_file(self, ticket: SyncTicket, done: Callable[[], None]) -> None: ...
    def flush_journal(self, flush: JournalFlush, done: Callable[[], None]) -> None: ...
    def close(self) -> None:
        """What was begun is done first."""


class SyncThreads:
    """The threads of a broker: some for files, and one for the journal, which never waits behind files."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._loop = loop
        self._file_jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._journal_jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._queues = [self._file_jobs] * count + [self._journal_jobs]  # one for each thread
        self._threads = [
            Thread(target=self._work, args=(queue,), name=f"oncestream-sync-{i}", daemon=True)
            for i, queue in enumerate(self._queues)
        ]
        for thread in self._threads:
            thread.start()

    def flush_file(self, ticket: SyncTicket, done: Callable[[], None]) -> None:
        self._file_jobs.put((ticket, done))

    def flush_journal(self, flush: JournalFlush, done: Callable[[], None]) -> None:
        self._journal_jobs.put((flush, done))

    def close(self) -> None:
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, jobs: SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            flush, done = job
            flush.run()
            self._loop.call_soon_threadsafe(done)
