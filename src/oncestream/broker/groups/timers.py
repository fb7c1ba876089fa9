"""Deadlines by name. Moving one further out, which every heartbeat does, costs one dictionary write."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from oncestream.broker.clock import Clock
from oncestream.broker.groups.step import Step


class TimerKey(NamedTuple):
    """Whose deadline it is, and for what."""

    group_id: str
    purpose: str
    member_id: str = ""


class _Timer(NamedTuple):
    due_ms: int
    action: Callable[[Step], None]


class Timers:
    """Clocks that are set do not move them. The heap may hold stale entries; the dictionary is what counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[TimerKey, _Timer] = {}
        self._heap: list[tuple[int, TimerKey]] = []
        self._queued: dict[TimerKey, int] = {}  # earliest due time under which a key lies in the heap

    def set(self, key: TimerKey, delay_ms: int, action: Callable[[Step], None]) -> None:
        due_ms = self._clock.elapsed_ms() + delay_ms
        self._timers[key] = _Timer(due_ms, action)
        self._queue(key, due_ms)

    def cancel(self, key: TimerKey) -> None:
        self._timers.pop(key, None)

    def is_set(self, key: TimerKey) -> bool:
        return key in self._timers

    @property
    def next_due_ms(self) -> int | None:
        """By `elapsed_ms`. No later than the next deadline; it may be earlier, then nothing is due yet."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self) -> tuple[TimerKey, Callable[[Step], None]] | None:
        """The next action whose time has come, with its key; it is no longer set then."""
        now_ms = self._clock.elapsed_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, key = heapq.heappop(self._heap)
            if self._queued.get(key) == due_ms:
                del self._queued[key]
            timer = self._timers.get(key)
            if timer is None:
                continue
            if timer.due_ms <= now_ms:
                del self._timers[key]
                return key, timer.action
            self._queue(key, timer.due_ms)
        return None

    def _queue(self, key: TimerKey, due_ms: int) -> None:
        queued_ms = self._queued.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._queued[key] = due_ms
            heapq.heappush(self._heap, (due_ms, key))
