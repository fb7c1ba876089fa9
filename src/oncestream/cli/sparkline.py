"""Numbers over time as one line of blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float], width: int) -> str:
    """The last `width` values, the tallest block for the largest of them; the lowest one for 0."""
    shown = [max(0.0, value) for value in values][-width:]
    largest = max(shown, default=0.0)
    if not largest:
        return BLOCKS[0] * len(shown)
    return "".join(BLOCKS[round(value / largest * (len(BLOCKS) - 1))] for value in shown)
