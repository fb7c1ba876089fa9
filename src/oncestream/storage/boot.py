"""Whether the machine was started anew since a data folder was last in use: then writes may have been lost.

A process that ends takes nothing along that it has written; a machine that ends, by a loss of power or a crash of its
kernel, takes along what was not flushed, page by page and in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from oncestream import machine
from oncestream.storage.disk import Disk

FILE_NAME: Final = ".boot"


class BootMark:
    """A file that names the start of the machine under which the folder is in use."""

    def __init__(
        self, folder: Path, disk: Disk, boot_id: Callable[[], bytes | None] = machine.boot_id
    ) -> None:
        self._path = folder / FILE_NAME
        self._disk = disk
        self._then, self._now = _read(self._path), boot_id()
        # Where one of them is not known it counts as the same start.
        self.is_another = bool(self._then and self._now and self._then != self._now)

    def set(self) -> None:
        if self._now and self._then != self._now:
            self._disk.replace_file(self._path, self._now)
            self._then = self._now


def _read(path: Path) -> bytes | None:
    with suppress(OSError):
        return path.read_bytes().strip()
    return None
