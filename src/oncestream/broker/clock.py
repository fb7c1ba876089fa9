"""Time as the broker sees it; tests drive it by hand."""

from __future__ import annotations

import time
from typing import Final


class Clock:
    """Milliseconds of the wall clock, which somebody may set, and of one that only goes on."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Since some moment before the start: what timeouts are measured with."""
        return time.monotonic_ns() // 1_000_000


REAL_CLOCK: Final = Clock()
