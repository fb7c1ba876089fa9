"""Whether the disk has room. The log has one line when it runs out and one when there is room again."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oncestream.wire.error_codes import ErrorCode, KafkaError

logger = logging.getLogger("oncestream.storage")

QUIET_MS: Final = 2_000
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFull(KafkaError):
    """There was no room for what was to be written. Nothing is lost by it, and later there may be."""


class Room:
    """The room on the disk of a data folder, as far as writes have met its end."""

    def __init__(self, folder: Path, clock_ms: Callable[[], int]) -> None:
        self.is_full = False
        self._folder = folder
        self._clock_ms = clock_ms
        self._refused_ms = 0

    def error_for(self, doing: str, error: OSError) -> KafkaError:
        """What clients are told of an error of the disk."""
        if not lacks_room(error):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{doing} failed: {error}")
        self._refused_ms = self._clock_ms()
        if not self.is_full:
            self.is_full = True
            logger.error(
                "disk full folder=%s: writes are refused, reads go on; make room, no restart is needed (%s: %s)",
                *(self._folder, doing, error),
            )
        return DiskFull(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of the broker is full ({doing} failed)")

    def wrote(self) -> None:
        """A write went well. A small one does so now and then on a disk where larger ones find no room."""
        if self.is_full and not 0 <= self._clock_ms() - self._refused_ms < QUIET_MS:
            self.is_full = False
            logger.warning("disk has room again folder=%s: writes are taken", self._folder)

    @contextmanager
    def not_needed_for(self, doing: str) -> Iterator[None]:
        """For what can be written later as well: that the disk is full is noted, and that is all."""
        try:
            yield
        except OSError as error:
            if not lacks_room(error):
                raise
            self.error_for(doing, error)


def lacks_room(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM
