"""Open files: a bounded number of them, each closed when its last user lets go."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final, NamedTuple

OPEN_FILES_MAX: Final = 400


class OpenFile:
    """A file descriptor that closes itself when nothing refers to it any more."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class FileSlice(NamedTuple):
    """Bytes of a segment, to be sent straight from the file. Holding it keeps the file open."""

    file: OpenFile
    position: int
    size: int

    def read(self) -> bytes:
        return os.pread(self.file.fd, self.size, self.position)


class FilePool:
    """The most recently used files, open. A file dropped here lives on in the hands of its readers."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        self._limit = limit
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def get(self, path: str) -> OpenFile:
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        file = self._files[path] = OpenFile(path)
        while len(self._files) > self._limit:
            self._files.popitem(last=False)
        return file

    def drop(self, path: str) -> None:
        self._files.pop(path, None)

    def clear(self) -> None:
        self._files.clear()
