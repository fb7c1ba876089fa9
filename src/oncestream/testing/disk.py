"""A disk that fails on command: full, out of room half-way through a write, failing or slow at flushes.

In a process of its own a broker takes its commands from a file: see `testing/faulty_broker.py`.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path

from oncestream.machine import path_of
from oncestream.storage.disk import Disk
from oncestream.testing.control_file import ControlFile, put


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """What goes wrong. Patterns are of paths, as in `*/events-*/*.log`; an empty one means none."""

    room_bytes: int | None = None  # so much can be written yet; None: there is room
    full_paths: str = "*"  # where the room is limited
    short_writes: bool = False
    truncate_errors: bool = False
    sync_errors: str = ""
    sync_delay_ms: int = 0

    def save(self, path: Path) -> None:
        """For a `FileControlledDisk`, which sees it from its next operation on."""
        put(path, json.dumps(asdict(self)))


class FaultyDisk(Disk):
    """The real disk with faults. Set them at any time, from any thread."""

    def __init__(self) -> None:
        self.syncs = 0
        self._faults = DiskFaults()
        self._room_bytes: int | None = None

    def set_faults(self, faults: DiskFaults) -> None:
        self._faults, self._room_bytes = faults, faults.room_bytes

    def write(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> int:
        faults, view = self._now(), memoryview(data)
        room_bytes = None if self._room_bytes is None else self._room_at(path_of(fd))
        if room_bytes is not None:
            view = view[:room_bytes]
            self._room_bytes = room_bytes - len(view)
        elif faults.short_writes:
            view = view[: max(1, len(view) // 2)]
        return super().write(fd, view, position)

    def make_file(self, path: str | Path) -> None:
        if not os.path.exists(path):
            self._room_at(str(path))
        super().make_file(path)

    def write_parts(self, fd: int, parts: Sequence[memoryview | bytes], position: int) -> int:
        return self.write(fd, b"".join(parts), position)

    def make_folder(self, path: Path) -> None:
        self._room_at(str(path))
        super().make_folder(path)

    def truncate(self, fd: int, size_bytes: int) -> None:
        if self._now().truncate_errors:
            raise _error(errno.EIO)
        super().truncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        self._sync(path_of(fd))
        super().sync(fd)

    def sync_folder(self, folder: str | Path) -> None:
        self._sync(str(folder))
        super().sync_folder(folder)

    def _now(self) -> DiskFaults:
        return self._faults

    def _room_at(self, path: str) -> int | None:
        """How much can be written there, None: any amount; raises if nothing can."""
        if not fnmatch(path, self._now().full_paths):
            return None
        room_bytes = self._room_bytes
        if room_bytes == 0:
            raise _error(errno.ENOSPC)
        return room_bytes

    def _sync(self, path: str) -> None:
        self.syncs += 1
        faults = self._now()
        if faults.sync_delay_ms:
            time.sleep(faults.sync_delay_ms / 1000)
        if faults.sync_errors and fnmatch(path, faults.sync_errors):
            raise _error(errno.EIO)


class FileControlledDisk(FaultyDisk):
    """Its faults are what `DiskFaults.save` has put into a file; none before there is one."""

    def __init__(self, control: Path) -> None:
        super().__init__()
        self._control = ControlFile(control)

    def _now(self) -> DiskFaults:
        if (told := self._control.news()) is not None:
            self.set_faults(DiskFaults(**json.loads(told)))
        return self._faults


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
