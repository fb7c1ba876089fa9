"""The three index files of a segment: by offset, by time, and of aborted transactions.

All are arrays of fixed-size big-endian entries. The active segment's entries stay in memory until
they are flushed; a closed segment's are searched in the file, through the page cache.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from oncestream.storage.disk import Disk
from oncestream.storage.files import FilePool

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
ABORTED_ENTRY: Final = struct.Struct(">hqqqq")
ABORTED_VERSION: Final = 0


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its records lie from `first_offset` to the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class IndexFile:
    """An append-only array of entries, in memory while `live`, else on disk."""

    __slots__ = ("_buffer", "_entry", "_flushed_bytes", "_pool", "count", "path")

    def __init__(
        self, path: str, entry: struct.Struct, pool: FilePool, *, live: bool, size_bytes: int
    ) -> None:
        self.path = path
        self._entry = entry
        self._pool = pool
        self._buffer: bytearray | None = None
        self.count = size_bytes // entry.size
        self._flushed_bytes = self.count * entry.size
        if live:
            self._load()

    @property
    def in_memory(self) -> bool:
        return self._buffer is not None

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry.size

    def append(self, *fields: int) -> None:
        buffer = self._buffer
        assert buffer is not None, "only the active segment's indexes grow"
        buffer += self._entry.pack(*fields)
        self.count += 1

    def entry(self, number: int) -> tuple[int, ...]:
        if self._buffer is not None:
            return self._entry.unpack_from(self._buffer, number * self._entry.size)
        size = self._entry.size
        return self._entry.unpack(os.pread(self._pool.get(self.path).fd, size, number * size))

    def entries(self) -> list[tuple[int, ...]]:
        if not self.count:
            return []
        data = self._buffer
        if data is None:
            data = bytearray(os.pread(self._pool.get(self.path).fd, self.size_bytes, 0))
        return list(self._entry.iter_unpack(data))

    def last_not_above(self, target: int) -> int:
        """Number of the last entry whose first field is at most `target`, or -1."""
        return bisect_right(range(self.count), target, key=lambda number: self.entry(number)[0]) - 1

    def flush(self, disk: Disk) -> None:
        """Writes what is new."""
        if self._buffer is None or len(self._buffer) == self._flushed_bytes:
            return
        if not self._flushed_bytes:
            disk.make_file(self.path)
        file = self._pool.get(self.path)
        disk.write_all(file.fd, bytes(self._buffer[self._flushed_bytes :]), self._flushed_bytes)
        self._flushed_bytes = len(self._buffer)

    def freeze(self) -> None:
        """The segment is closed: from now on entries are read from the file."""
        self._buffer = None

    def clear(self) -> None:
        """Forgets all entries, in the file too: they are about to be built anew."""
        self.count = self._flushed_bytes = 0
        self._buffer = bytearray()
        if os.path.exists(self.path):
            os.truncate(self.path, 0)

    def _load(self) -> None:
        self._buffer = bytearray()
        if self.count:
            self._buffer += os.pread(self._pool.get(self.path).fd, self.size_bytes, 0)
