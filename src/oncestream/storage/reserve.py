"""A little room held back on the disk, for the changes by which an operator makes more of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from oncestream.storage.disk import Disk

FILE_NAME: Final = ".reserve"
RESERVE_BYTES: Final = 256 * 1024


class Reserve:
    """A file that is of no use but to be deleted."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._path = folder / FILE_NAME
        self._disk = disk

    def fill(self) -> None:
        """Random bytes, because file systems that compress would keep no room for zeros."""
        if not self._path.exists():
            self._disk.replace_file(self._path, os.urandom(RESERVE_BYTES), durable=False)

    def release(self) -> bool:
        """Whether there was something to give."""
        if not self._path.exists():
            return False
        self._path.unlink()
        return True
