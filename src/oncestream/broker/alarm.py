"""One timer of the event loop for any number of deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from oncestream.broker.clock import Clock


class Scheduler(Protocol):
    """The part of an event loop that timers need."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle: ...


class Alarm:
    """Calls `on_ring` at the deadline it is set to, or sooner; who is called looks what is due and sets it again."""

    def __init__(self, scheduler: Scheduler, clock: Clock, on_ring: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._on_ring = on_ring
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def set(self, due_ms: int | None) -> None:
        """By the clock's `elapsed_ms`; None: there is no deadline."""
        if due_ms is None:
            return
        if self._timer is not None:
            if self._due_ms <= due_ms:
                return
            self._timer.cancel()
        delay_ms = max(due_ms - self._clock.elapsed_ms(), 0)
        self._timer, self._due_ms = self._scheduler.call_later(delay_ms / 1000, self._ring), due_ms

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._on_ring()
