"""When the next transaction is due to be given up. One entry per transactional id, however many transactions."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from oncestream.broker.clock import Clock
from oncestream.broker.transactions.waits import Scheduler


class Timeouts:
    """Calls `on_due` with an id at or after its deadline; it answers when to look again, None: not at all."""

    def __init__(self, scheduler: Scheduler, clock: Clock, on_due: Callable[[str, int], int | None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._on_due = on_due
        self._heap: list[tuple[int, str]] = []
        self._queued: dict[str, int] = {}  # earliest deadline under which an id lies in the heap
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    def watch(self, transactional_id: str, due_ms: int) -> None:
        """A later deadline than the one an id has is looked at when that one comes."""
        queued_ms = self._queued.get(transactional_id)
        if queued_ms is None or due_ms < queued_ms:
            self._queued[transactional_id] = due_ms
            heapq.heappush(self._heap, (due_ms, transactional_id))
            self._arm()

    def run_due(self) -> None:
        now_ms = self._clock.now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, transactional_id = heapq.heappop(self._heap)
            if self._queued.get(transactional_id) != due_ms:
                continue
            del self._queued[transactional_id]
            again_ms = self._on_due(transactional_id, now_ms)
            if again_ms is not None:
                self.watch(transactional_id, max(again_ms, now_ms + 1))

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _arm(self) -> None:
        due_ms = self._heap[0][0]
        if self._alarm is not None:
            if self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
        delay_ms = max(due_ms - self._clock.now_ms(), 0)
        self._alarm, self._alarm_ms = self._scheduler.call_later(delay_ms / 1000, self._ring), due_ms

    def _ring(self) -> None:
        self._alarm = None
        self.run_due()
        if self._heap:
            self._arm()
