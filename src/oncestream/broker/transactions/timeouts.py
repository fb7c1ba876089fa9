"""When the next transaction is due to be given up. One entry per transactional id, however many transactions."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from oncestream.broker.clock import Clock
from oncestream.broker.transactions.waits import Scheduler


class Timeouts:
    """Calls `on_due` with an id at or after its deadline; it answers in how many milliseconds again, None: never.

    Differs from Apache Kafka: a wall clock that is set moves no deadline.
    """

    def __init__(self, scheduler: Scheduler, clock: Clock, on_due: Callable[[str], int | None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._on_due = on_due
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._queued: dict[str, int] = {}  # earliest deadline under which an id lies in the heap
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    def watch(self, transactional_id: str, delay_ms: int) -> None:
        """Takes the place of the deadline that the id had; a later one is looked at when that one comes."""
        self._due[transactional_id] = due_ms = self._clock.elapsed_ms() + delay_ms
        self._queue(transactional_id, due_ms)

    def run_due(self) -> None:
        now_ms = self._clock.elapsed_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, transactional_id = heapq.heappop(self._heap)
            if self._queued.get(transactional_id) != queued_ms:
                continue
            del self._queued[transactional_id]
            if (due_ms := self._due[transactional_id]) > now_ms:
                self._queue(transactional_id, due_ms)
                continue
            del self._due[transactional_id]
            if (again_ms := self._on_due(transactional_id)) is not None:
                self.watch(transactional_id, again_ms)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _queue(self, transactional_id: str, due_ms: int) -> None:
        queued_ms = self._queued.get(transactional_id)
        if queued_ms is None or due_ms < queued_ms:
            self._queued[transactional_id] = due_ms
            heapq.heappush(self._heap, (due_ms, transactional_id))
            self._arm()

    def _arm(self) -> None:
        due_ms = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
        delay_ms = max(due_ms - self._clock.elapsed_ms(), 0)
        self._alarm, self._alarm_ms = self._scheduler.call_later(delay_ms / 1000, self._ring), due_ms

    def _ring(self) -> None:
        self._alarm = None
        self.run_due()
        if self._heap:
            self._arm()
