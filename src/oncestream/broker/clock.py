"""Time as the broker sees it; tests drive it by hand."""

from __future__ import annotations

import time


class Clock:
    """The wall clock in milliseconds."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
