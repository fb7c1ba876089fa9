"""The few disk operations whose failure matters, in one place, so that tests can fail them on command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from oncestream.machine import sync_data, sync_file


class Disk:
    """The real disk. A test's disk overrides what it wants to fail."""

    def write(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> int:
        """May write less than all of it, as the system call does."""
        return os.pwrite(fd, data, position)

    def write_parts(self, fd: int, parts: Sequence[memoryview | bytes], position: int) -> int:
        """As `write`, of several one after the other."""
        return os.pwritev(fd, parts, position)

    def make_file(self, path: str | Path) -> None:
        """An empty file, unless there is one."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def ignores_case(self, file: Path) -> bool:
        """Whether `file`, which is there, is found by its name in the other case too."""
        other = file.with_name(file.name.swapcase())
        return other.exists() and other.samefile(file)

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def rename(self, path: Path, target: Path) -> None:
        """In the place of what has the name, if anything has."""
        os.replace(path, target)

    def remove(self, path: Path) -> None:
        """If it is there."""
        path.unlink(missing_ok=True)

    def truncate(self, fd: int, size_bytes: int) -> None:
        os.ftruncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        sync_data(fd)

    def sync_folder(self, folder: str | Path) -> None:
        """Makes created, renamed and removed names in the folder durable."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync_file(fd)
        finally:
            os.close(fd)

    def write_all(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> None:
        view = memoryview(data)
        while view:
            written = self.write(fd, view, position)
            if written <= 0:
                raise OSError(f"write of {len(view)} bytes wrote nothing")
            view = view[written:]
            position += written

    def replace_file(self, path: Path, content: bytes, *, durable: bool = True) -> None:
        """All or nothing: written beside, synced, renamed over."""
        beside = path.with_name(path.name + ".tmp")
        try:
            self._write_file(beside, content, durable=durable)
            self.rename(beside, path)
        except OSError:
            self.remove(beside)  # on a full disk even that little is missed
            raise
        if durable:
            self.sync_folder(path.parent)

    def _write_file(self, path: Path, content: bytes, *, durable: bool) -> None:
        self.make_file(path)
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            self.write_all(fd, content, 0)
            if durable:
                self.sync(fd)
        finally:
            os.close(fd)


def remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


REAL_DISK: Final = Disk()
