"""Deadlines of groups and members, with what happens then."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncestream.broker.clock import Clock
from oncestream.broker.deadlines import Deadlines
from oncestream.broker.groups.step import Step


class TimerKey(NamedTuple):
    """Whose deadline it is, and for what."""

    group_id: str
    purpose: str
    member_id: str = ""


class Timers:
    """An action for every deadline that is set."""

    def __init__(self, clock: Clock) -> None:
        self._deadlines: Deadlines[TimerKey] = Deadlines(clock)
        self._actions: dict[TimerKey, Callable[[Step], None]] = {}

    def set(self, key: TimerKey, delay_ms: int, action: Callable[[Step], None]) -> None:
        self._actions[key] = action
        self._deadlines.set(key, delay_ms)

    def cancel(self, key: TimerKey) -> None:
        self._actions.pop(key, None)
        self._deadlines.cancel(key)

    def is_set(self, key: TimerKey) -> bool:
        return self._deadlines.is_set(key)

    @property
    def next_due_ms(self) -> int | None:
        return self._deadlines.next_due_ms

    def pop_due(self) -> tuple[TimerKey, Callable[[Step], None]] | None:
        """The next action whose time has come, with its key; it is no longer set then."""
        key = self._deadlines.pop_due()
        return None if key is None else (key, self._actions.pop(key))
