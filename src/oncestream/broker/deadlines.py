"""Deadlines by key. Moving one further out, which every heartbeat does, costs one dictionary write."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from oncestream.broker.clock import Clock

K = TypeVar("K", bound="str | tuple[str, ...]")


class Deadlines(Generic[K]):
    """Clocks that are set do not move them. The heap may hold stale entries; `_due` is what counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []
        self._queued: dict[K, int] = {}  # earliest due time under which a key lies in the heap

    def set(self, key: K, delay_ms: int) -> None:
        """Takes the place of the deadline that the key had."""
        self._due[key] = due_ms = self._clock.elapsed_ms() + delay_ms
        self._queue(key, due_ms)

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def is_set(self, key: K) -> bool:
        return key in self._due

    @property
    def next_due_ms(self) -> int | None:
        """By `elapsed_ms`. No later than the next deadline; it may be earlier, then nothing is due yet."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self) -> K | None:
        """The next key whose time has come; it is no longer set then."""
        now_ms = self._clock.elapsed_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, key = heapq.heappop(self._heap)
            if self._queued.get(key) == queued_ms:
                del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[key]
                return key
            self._queue(key, due_ms)
        return None

    def _queue(self, key: K, due_ms: int) -> None:
        queued_ms = self._queued.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._queued[key] = due_ms
            heapq.heappush(self._heap, (due_ms, key))
