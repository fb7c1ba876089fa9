"""Quotas at work: bytes a second, over a sliding window of eleven samples of one second, as Kafka counts them.

A client over its quota is answered at once, told how long it is throttled, and not read from for that time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Protocol

from oncestream.broker.security.quota_values import NAME_LENGTH_MAX, Entity, Limit, limit_for

SAMPLES: Final = 11
SAMPLE_SECONDS: Final = 1
TRACKED_MAX: Final = 10_000
THROTTLE_MS_MAX: Final = 300_000  # half of what an idle connection may live

_Client = tuple[str, str, str]  # what is counted, user, client id


class QuotaTable(Protocol):
    """Where the quotas are kept; the version changes with them."""

    quotas: dict[Entity, dict[str, float]]
    quotas_version: int


class Quotas:
    """How much each user and client id has sent and taken lately. Those seen last are remembered."""

    def __init__(self, table: QuotaTable) -> None:
        self._table = table
        self._version = table.quotas_version
        self._limits: dict[_Client, Limit | None] = {}
        self._windows: OrderedDict[tuple[str, tuple[str | None, str | None]], _Window] = OrderedDict()

    def charge(self, key: str, user: str, client_id: str, size_bytes: int, now_s: float) -> int:
        """Counts bytes; the milliseconds for which the client is to be throttled."""
        limit = self._limit(key, user, client_id[:NAME_LENGTH_MAX])
        if limit is None or not size_bytes:
            return 0
        place = key, limit.counted_for
        window = self._windows.get(place)
        if window is None:
            window = self._windows[place] = _Window()
            if len(self._windows) > TRACKED_MAX:
                self._windows.popitem(last=False)
        self._windows.move_to_end(place)
        total, seconds = window.add(size_bytes, now_s)
        late_ms = int((total / limit.rate - seconds) * 1000)
        return min(max(late_ms, 0), THROTTLE_MS_MAX)

    def room(self, key: str, user: str, client_id: str) -> int | None:
        """The most that one answer may carry: what the quota allows in a window. None: no quota."""
        limit = self._limit(key, user, client_id[:NAME_LENGTH_MAX])
        return None if limit is None else int(limit.rate * (SAMPLES - 1) * SAMPLE_SECONDS)

    def _limit(self, key: str, user: str, client_id: str) -> Limit | None:
        if self._version != self._table.quotas_version or len(self._limits) >= TRACKED_MAX:
            self._version = self._table.quotas_version
            self._limits.clear()
        client = key, user, client_id
        if client not in self._limits:
            self._limits[client] = limit_for(self._table.quotas, key, user, client_id)
        return self._limits[client]


class _Window:
    """Bytes of the last seconds."""

    __slots__ = ("_samples", "_total")

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()  # second, bytes
        self._total = 0

    def add(self, size_bytes: int, now_s: float) -> tuple[int, float]:
        """The bytes in the window now, and how many seconds it spans."""
        second = int(now_s)
        samples = self._samples
        while samples and samples[0][0] <= second - SAMPLES * SAMPLE_SECONDS:
            self._total -= samples.popleft()[1]
        if samples and samples[-1][0] == second:
            samples[-1] = second, samples[-1][1] + size_bytes
        else:
            samples.append((second, size_bytes))
        self._total += size_bytes
        return self._total, (SAMPLES - 1) * SAMPLE_SECONDS + now_s - second
