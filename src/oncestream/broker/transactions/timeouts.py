"""When the next transaction is due to be given up. One entry per transactional id, however many transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncestream.broker.clock import Clock
from oncestream.broker.deadlines import Deadlines
from oncestream.broker.transactions.waits import Scheduler


class Timeouts:
    """Calls `on_due` with an id at or after its deadline; it answers in how many milliseconds again, None: never.

    Differs from Apache Kafka: a wall clock that is set moves no deadline.
    """

    def __init__(self, scheduler: Scheduler, clock: Clock, on_due: Callable[[str], int | None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._on_due = on_due
        self._deadlines: Deadlines[str] = Deadlines(clock)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    def watch(self, transactional_id: str, delay_ms: int) -> None:
        """Takes the place of the deadline that the id had; a later one is looked at when that one comes."""
        self._deadlines.set(transactional_id, delay_ms)
        self._arm()

    def run_due(self) -> None:
        while (transactional_id := self._deadlines.pop_due()) is not None:
            if (again_ms := self._on_due(transactional_id)) is not None:
                self.watch(transactional_id, again_ms)

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _arm(self) -> None:
        due_ms = self._deadlines.next_due_ms
        if due_ms is None:
            return
        if self._alarm is not None:
            if self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
        delay_ms = max(due_ms - self._clock.elapsed_ms(), 0)
        self._alarm, self._alarm_ms = self._scheduler.call_later(delay_ms / 1000, self._ring), due_ms

    def _ring(self) -> None:
        self._alarm = None
        self.run_due()
        self._arm()
