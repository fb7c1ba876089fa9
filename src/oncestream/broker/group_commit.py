"""Group commit: worker threads call fdatasync; one call serves every append that came before it."""

from __future__ import annotations

import asyncio
import logging
from queue import SimpleQueue
from threading import Thread

from oncestream.broker.partition import Partition
from oncestream.storage.sync import SyncTicket
from oncestream.wire.error_codes import KafkaError

logger = logging.getLogger("oncestream.broker")

_Job = tuple[Partition, SyncTicket]


class GroupCommit:
    """At most one flush per partition runs at a time; what is appended meanwhile goes with the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._dirty: set[Partition] = set()
        self._running: set[Partition] = set()
        self._scheduled = False
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self._threads = [
            Thread(target=self._work, name=f"oncestream-sync-{i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def request(self, partition: Partition) -> None:
        self._dirty.add(partition)
        self._idle.clear()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start)

    async def drain(self) -> None:
        """Waits until everything appended so far is flushed."""
        await self._idle.wait()

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        self._scheduled = False
        for partition in self._dirty - self._running:
            self._dirty.discard(partition)
            ticket = partition.log.unsynced()
            if ticket is not None:
                self._running.add(partition)
                self._jobs.put((partition, ticket))
        if not self._dirty and not self._running:
            self._idle.set()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            partition, ticket = job
            ticket.run()
            self._loop.call_soon_threadsafe(self._done, partition, ticket)

    def _done(self, partition: Partition, ticket: SyncTicket) -> None:
        try:
            partition.log.synced(ticket)
        except KafkaError as error:
            logger.error(
                "flush failed topic=%s partition=%d: %s", partition.topic, partition.index, error.message
            )
        self._running.discard(partition)
        partition.on_synced()
        if not self._scheduled:
            self._start()
