"""What the broker does now and then: retention, compaction, checkpoints, expiry. Never in the way of requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncestream.broker.node import Node
from oncestream.storage.log import Log
from oncestream.storage.room import DiskFull
from oncestream.storage.steps import Steps
from oncestream.wire.error_codes import KafkaError

logger = logging.getLogger("oncestream.broker")


class Housekeeping:
    """One round after another, one log at a time; what waits for the disk, or takes long, runs in a thread."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._in_thread: asyncio.Future[None] | None = None
        self._task = node.loop.create_task(self._run())

    async def close(self) -> None:
        """Waits for what a thread is doing: nobody may write to a folder that is closed."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._in_thread is not None:
            await asyncio.wait([self._in_thread])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._node.settings.housekeeping_ms / 1000)
            try:
                await self.round()
            except Exception:
                logger.exception("housekeeping failed; it goes on with the next round")

    async def round(self) -> None:
        now_ms = self._node.clock.now_ms()
        for log in self._logs():
            with _going_on("retention", log):
                _retain(log, now_ms)
            await asyncio.sleep(0)
        self._node.commits.settle()
        for log in self._logs():
            if not self._node.durable:
                await self._flush(log)
            with _going_on("compaction", log):
                await self._compact(log, now_ms)
        with _going_on("checkpoint"):
            await self._in_steps(self._node.folder.checkpoint())

    def _logs(self) -> Iterator[Log]:
        for topic in tuple(self._node.topics.values()):
            for partition in tuple(topic.partitions):
                yield partition.log
        yield self._node.catalog.log

    async def _compact(self, log: Log, now_ms: int) -> None:
        job = log.plan_compaction(now_ms)
        if job is None:
            return
        await self._run_in_thread(job.run)
        await self._in_steps(log.finish_compaction(job))
        if job.error is not None:
            raise job.error
        logger.info("compacted topic=%s partition=%d to_offset=%d", log.topic, log.partition, job.end_offset)

    async def _flush(self, log: Log) -> None:
        """With durability=os nobody else flushes, and recovery after a crash would have to read ever more."""
        ticket = log.unsynced()
        if ticket is not None:
            await self._run_in_thread(ticket.run)
            with _going_on("flush", log):
                log.synced(ticket)

    async def _in_steps(self, steps: Steps) -> None:
        for step in steps:
            await self._run_in_thread(step.run)

    async def _run_in_thread(self, work: Callable[[], None]) -> None:
        self._in_thread = self._node.loop.run_in_executor(None, work)
        await asyncio.shield(self._in_thread)


def _retain(log: Log, now_ms: int) -> None:
    deleted = log.apply_retention(now_ms)
    if deleted:
        logger.info(
            "retention topic=%s partition=%d segments_deleted=%d start_offset=%d",
            *(log.topic, log.partition, deleted, log.start_offset),
        )


@contextmanager
def _going_on(doing: str, log: Log | None = None) -> Iterator[None]:
    """What fails for one log must not keep the others from it. Of a full disk is told elsewhere, once."""
    try:
        yield
    except DiskFull:
        pass
    except KafkaError as error:
        where = "" if log is None else f" topic={log.topic} partition={log.partition}"
        logger.error("%s failed%s: %s", doing, where, error.message)
