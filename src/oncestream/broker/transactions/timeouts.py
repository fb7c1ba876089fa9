"""When the next transaction is due to be given up. One entry per transactional id, however many transactions."""

from __future__ import annotations

from collections.abc import Callable

from oncestream.broker.alarm import Alarm, Scheduler
from oncestream.broker.clock import Clock
from oncestream.broker.deadlines import Deadlines


class Timeouts:
    """Calls `on_due` with an id at or after its deadline; it answers in how many milliseconds again, None: never.

    Differs from Apache Kafka: a wall clock that is set moves no deadline.
    """

    def __init__(self, scheduler: Scheduler, clock: Clock, on_due: Callable[[str], int | None]) -> None:
        self._on_due = on_due
        self._deadlines: Deadlines[str] = Deadlines(clock)
        self._alarm = Alarm(scheduler, clock, self._ring)

    def watch(self, transactional_id: str, delay_ms: int) -> None:
        """Takes the place of the deadline that the id had; a later one is looked at when that one comes."""
        self._deadlines.set(transactional_id, delay_ms)
        self._alarm.set(self._deadlines.next_due_ms)

    def run_due(self) -> None:
        while (transactional_id := self._deadlines.pop_due()) is not None:
            if (again_ms := self._on_due(transactional_id)) is not None:
                self.watch(transactional_id, again_ms)

    def close(self) -> None:
        self._alarm.close()

    def _ring(self) -> None:
        self.run_due()
        self._alarm.set(self._deadlines.next_due_ms)
