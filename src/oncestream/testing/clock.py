"""A wall clock that is set on command; in a process of its own a broker takes the command from a file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from oncestream.broker.clock import Clock
from oncestream.testing.control_file import ControlFile, put

MINUTE_MS: Final = 60_000
JUMP_MS_MAX: Final = 6 * 60 * MINUTE_MS  # so that what lasts days does not end


class FileControlledClock(Clock):
    """As far from the real wall clock as `save_offset` has put into a file; right before there is one."""

    def __init__(self, control: Path) -> None:
        self._control = ControlFile(control)
        self._offset_ms = 0

    def now_ms(self) -> int:
        if (told := self._control.news()) is not None:
            self._offset_ms = int(told)
        return super().now_ms() + self._offset_ms


def save_offset(control: Path, offset_ms: int) -> None:
    """For a `FileControlledClock`, which jumps at once."""
    put(control, str(offset_ms))


def random_jump_ms(seed: int) -> int:
    """A minute to six hours, forward or backward; the same for the same seed."""
    dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    return dice.choice((-1, 1)) * dice.randint(MINUTE_MS, JUMP_MS_MAX)
