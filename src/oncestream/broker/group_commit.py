"""Group commit: the disk is asked in the background; one fdatasync serves every append that came before it."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from oncestream.broker.partition import Partition
from oncestream.storage.sync import SyncTicket
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.storage.kernel_sync import KernelSync

logger = logging.getLogger("oncestream.broker")

_Job = tuple[Partition, SyncTicket]


class GroupCommit:
    """At most one flush per partition runs at a time; what is appended meanwhile goes with the next one.

    A flush of one file is left to the kernel where it can do that (`by_kernel`); all others run in threads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, *, by_kernel: bool) -> None:
        self._loop = loop
        self._by_kernel = by_kernel
        self._kernel: KernelSync | None = None  # opened for the first flush: a start must not wait for ctypes
        self._kernel_jobs: dict[int, _Job] = {}
        self._numbers = count()
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
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fd)
            self._kernel.close()

    def _start(self) -> None:
        self._scheduled = False
        for partition in self._dirty - self._running:
            self._dirty.discard(partition)
            ticket = partition.log.unsynced()
            if ticket is not None:
                self._running.add(partition)
                if not (self._by_kernel and self._submit(partition, ticket)):
                    self._jobs.put((partition, ticket))
        if not self._dirty and not self._running:
            self._idle.set()

    def _submit(self, partition: Partition, ticket: SyncTicket) -> bool:
        file = ticket.only_file
        if file is None or (self._kernel is None and not self._open_kernel()):
            return False
        assert self._kernel is not None
        number = next(self._numbers)
        ticket.cover_tail()
        if not self._kernel.submit(file.fd, number):
            return False
        self._kernel_jobs[number] = partition, ticket
        return True

    def _open_kernel(self) -> bool:
        from oncestream.storage.kernel_sync import KernelSync

        self._kernel = KernelSync.open()
        if self._kernel is None:
            self._by_kernel = False
            return False
        self._loop.add_reader(self._kernel.fd, self._kernel_done)
        return True

    def _kernel_done(self) -> None:
        assert self._kernel is not None
        for number, error in self._kernel.finished():
            partition, ticket = self._kernel_jobs.pop(number)
            ticket.error = error
            self._settle(partition, ticket)
        self._go_on()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            partition, ticket = job
            ticket.run()
            self._loop.call_soon_threadsafe(self._thread_done, partition, ticket)

    def _thread_done(self, partition: Partition, ticket: SyncTicket) -> None:
        self._settle(partition, ticket)
        self._go_on()

    def _settle(self, partition: Partition, ticket: SyncTicket) -> None:
        try:
            partition.log.synced(ticket)
        except KafkaError as error:
            logger.error(
                "flush failed topic=%s partition=%d: %s", partition.topic, partition.index, error.message
            )
        self._running.discard(partition)
        partition.on_synced()

    def _go_on(self) -> None:
        if not self._scheduled:
            self._start()
