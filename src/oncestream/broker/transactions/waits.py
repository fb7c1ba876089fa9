"""Requests that came while a transaction was ending: they go on, in their order, when it has ended.

Apache Kafka answers CONCURRENT_TRANSACTIONS at once, and clients come again after a pause. The end takes a flush
of the disk, so it is quicker to wait; only who has waited too long is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from oncestream.broker.alarm import Scheduler

WAIT_SECONDS_MAX: Final = 1.0


class _Waiter(NamedTuple):
    resume: Callable[[], None]
    alarm: asyncio.TimerHandle


class Waits:
    """Who waits for which transactional id."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiters: dict[str, list[_Waiter]] = {}

    def add(self, transactional_id: str, resume: Callable[[], None], give_up: Callable[[], None]) -> None:
        def expire() -> None:
            waiting = self._waiters[transactional_id]
            waiting.remove(waiter)
            if not waiting:
                del self._waiters[transactional_id]
            give_up()

        waiter = _Waiter(resume, self._scheduler.call_later(WAIT_SECONDS_MAX, expire))
        self._waiters.setdefault(transactional_id, []).append(waiter)

    def settle(self, transactional_id: str) -> None:
        for waiter in self._waiters.pop(transactional_id, ()):
            waiter.alarm.cancel()
            waiter.resume()

    def close(self) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.alarm.cancel()
        self._waiters.clear()
