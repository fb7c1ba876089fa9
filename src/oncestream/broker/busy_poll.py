"""Staying awake for a moment: to fall asleep and be woken takes longer than to answer a small request."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from oncestream import machine

ROW: Final = 8  # requests, each soon after the last, before the loop stays awake


class BusyPoll:
    """Keeps the loop awake for a while after a request, as long as the next one comes within it.

    This is how clients come that await each answer. Of everybody else's time at most one window is lost in `ROW`
    requests, and an idle broker sleeps.
    """

    __slots__ = ("_awake", "_call_soon", "_heard_s", "_now_s", "_row", "_window_s")

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        window_us: int,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._call_soon = call_soon
        self._window_s = window_us / 1e6
        self._now_s = now_s  # the loop's own clock counts milliseconds
        self._heard_s = 0.0
        self._row = 0
        self._awake = False

    def heard_one(self) -> None:
        """A client has sent a request, and none along with it."""
        now_s = self._now_s()
        if not self._awake:
            self._row = self._row + 1 if now_s - self._heard_s < self._window_s else 0
            if self._row >= ROW:
                self._awake = True
                self._call_soon(self._stay)
        self._heard_s = now_s

    def _stay(self) -> None:
        if self._now_s() - self._heard_s < self._window_s:
            self._call_soon(self._stay)
        else:
            self._awake = False
            self._row = 0


def has_cores_to_spare(cores: int | None = None, quota: float | None = None) -> bool:
    """Whether a client can run while the broker stays awake: not where both share the time of one core."""
    cores = machine.usable_cores() if cores is None else cores
    return min(cores, machine.cpu_quota() if quota is None else quota) >= 2
