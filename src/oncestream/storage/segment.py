"""One segment of a log: its file, its indexes, and where in it an offset lies."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from oncestream.records.batch import HEADER_SIZE, LENGTH_PREFIX_BYTES, MAGIC, BatchHeader, parse_header
from oncestream.storage.config import RollLimits
from oncestream.storage.disk import Disk
from oncestream.storage.files import FilePool, OpenFile
from oncestream.storage.index import (
    ABORTED_ENTRY,
    ABORTED_VERSION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedTransaction,
    IndexFile,
    TimestampOffset,
)

INT32_MAX: Final = 2**31 - 1
RECENT_BATCHES: Final = 512
READ_CHUNK_BYTES: Final = 1024 * 1024
SCAN_CHUNK_BYTES: Final = 16 * 1024
SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")
NO_TIMESTAMP: Final = -1
_new: Final = tuple.__new__  # half the price of calling the class


class Located(NamedTuple):
    """A batch in a segment's file."""

    position: int
    size_bytes: int


def segment_path(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{base_offset:020d}{suffix}"


def record_time(header: BatchHeader) -> int:
    """The largest timestamp of a batch's records: none if compaction has emptied it."""
    return header.max_timestamp if header.count else NO_TIMESTAMP


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log is live, that is, grows."""

    def __init__(
        self,
        folder: Path,
        base_offset: int,
        *,
        pool: FilePool,
        disk: Disk,
        created_ms: int,
        live: bool = False,
        suffix: str = "",
    ) -> None:
        paths = [str(segment_path(folder, base_offset, kind + suffix)) for kind in SUFFIXES]
        self.base_offset = base_offset
        self.path = paths[0]
        self.size_bytes = _size_of(self.path)
        self.offsets = IndexFile(paths[1], OFFSET_ENTRY, pool, live=live, size_bytes=_size_of(paths[1]))
        self.times = IndexFile(paths[2], TIME_ENTRY, pool, live=live, size_bytes=_size_of(paths[2]))
        self.aborts = IndexFile(paths[3], ABORTED_ENTRY, pool, live=live, size_bytes=_size_of(paths[3]))
        self.created_ms = created_ms
        self._pool = pool
        self._disk = disk
        self._first_timestamp: int | None = None
        self._bytes_since_index = 0
        self._recent_offsets: list[int] = []
        self._recent_positions: list[int] = []
        self._largest = self._last_time_entry()
        self._indexed_timestamp = self._largest.timestamp
        self.next_offset = base_offset  # kept while the segment is live

    @property
    def paths(self) -> list[str]:
        return [self.path, self.offsets.path, self.times.path, self.aborts.path]

    @property
    def is_frozen(self) -> bool:
        """Whether its indexes are in their files, all of them."""
        return not self.offsets.in_memory

    def file(self) -> OpenFile:
        return self._pool.get(self.path)

    def create(self) -> None:
        """Makes the empty files of a new segment; the log's last: without it the others count for nothing."""
        for path in (self.offsets.path, self.times.path, self.path):
            self._disk.make_file(path)

    # Writing: the live segment only.

    def append(
        self,
        batch: memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        interval: int,
        file: OpenFile | None = None,
    ) -> OpenFile:
        """Writes one stamped batch at the end; nothing has changed if it raises. `file`: ours, if it is at hand."""
        position = self.size_bytes
        size = len(batch)
        if file is None:
            file = self._pool.get(self.path)
        if self._disk.write(file.fd, batch, position) != size:
            self._disk.write_all(file.fd, batch, position)
        self.note(base_offset, last_offset, max_timestamp, size, interval)
        return file

    def note(self, base_offset: int, last_offset: int, max_timestamp: int, size: int, interval: int) -> None:
        """Takes a batch that now lies at the end of the file into the indexes."""
        position = self.size_bytes
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._largest.timestamp:
            self._largest = _new(TimestampOffset, (max_timestamp, last_offset, -1))
        if self._bytes_since_index > interval:
            self.offsets.append(last_offset - self.base_offset, position)
            self._index_time()
            self._bytes_since_index = 0
        self._bytes_since_index += size
        self._recent_offsets.append(base_offset)
        self._recent_positions.append(position)
        if len(self._recent_offsets) > 2 * RECENT_BATCHES:
            del self._recent_offsets[:RECENT_BATCHES]
            del self._recent_positions[:RECENT_BATCHES]
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    def undo_write(self) -> None:
        """Cuts off what a failed write left behind the last whole batch."""
        self._disk.truncate(self._pool.get(self.path).fd, self.size_bytes)

    def note_abort(self, aborted: AbortedTransaction) -> None:
        self.aborts.append(ABORTED_VERSION, *aborted)

    def must_roll(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, limits: RollLimits
    ) -> bool:
        """Whether a batch must go to a new segment; asked of a segment that holds something."""
        first_timestamp = self._first_timestamp
        if first_timestamp is None:
            first_timestamp = self.first_timestamp()
        waited_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms
        return (
            self.size_bytes + size > limits.size_bytes
            or waited_ms > limits.waited_ms
            or last_offset - self.base_offset > INT32_MAX
            or self.offsets.count >= limits.offset_entries
            or self.times.count >= limits.time_entries
        )

    def flush_indexes(self, *, closing: bool = False) -> list[OpenFile]:
        """Writes new index entries. Closing, the largest timestamp too: all files, which are to be synced."""
        if closing:
            self._index_time()
        indexes = (self.offsets, self.times, self.aborts)
        for index in indexes:
            index.flush(self._disk)
        return [self._pool.get(index.path) for index in indexes if index.count] if closing else []

    def freeze(self) -> None:
        """Another segment is live now."""
        for index in (self.offsets, self.times, self.aborts):
            index.freeze()
        self.forget_recent()

    def forget_recent(self) -> None:
        """Recent positions are exact only while offsets have no holes, which a scanned segment may have."""
        self._recent_offsets.clear()
        self._recent_positions.clear()

    def reset_indexes(self) -> None:
        """Before the segment is scanned anew, batch by batch through `note`."""
        for index in (self.offsets, self.times, self.aborts):
            index.clear()
        self._largest = self._last_time_entry()
        self._indexed_timestamp = self._largest.timestamp
        self._first_timestamp = None
        self._bytes_since_index = 0
        self.size_bytes = 0
        self.next_offset = self.base_offset
        self.forget_recent()

    # Looking up.

    def locate(self, offset: int) -> Located | None:
        """The first batch that holds `offset` or a later one; None if all batches are below it."""
        recent = self._recent_offsets
        if recent and offset >= recent[0]:
            if offset >= self.next_offset:
                return None
            number = bisect_right(recent, offset)
            position = self._recent_positions[number - 1]
            end = self._recent_positions[number] if number < len(recent) else self.size_bytes
            return Located(position, end - position)
        for position, header in self.headers(self.index_position(offset)):
            if header.last_offset >= offset:
                return Located(position, header.size_bytes)
        return None

    def index_position(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, as near as the index knows."""
        number = self.offsets.last_not_above(offset - self.base_offset)
        return self.offsets.entry(number)[1] if number >= 0 else 0

    def offset_after(self, position: int) -> int | None:
        """An offset above all batches that begin before `position`, as near as the index knows; None if it does not."""
        if position >= self.size_bytes:
            return None
        recent = self._recent_positions
        if recent and recent[0] <= position:
            number = bisect_left(recent, position)
            return self._recent_offsets[number] if number < len(recent) else None
        count = self.offsets.count
        number = bisect_left(range(count), position, key=lambda number: self.offsets.entry(number)[1])
        if number < count:
            return self.base_offset + self.offsets.entry(number)[0]
        return self._recent_offsets[0] if recent else None

    def header_at(self, position: int) -> BatchHeader:
        return parse_header(os.pread(self.file().fd, HEADER_SIZE, position))

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of whole batches from `position` on; ends at the first that cannot be one."""
        file = self.file()
        chunk, chunk_start = b"", position
        while position + HEADER_SIZE <= self.size_bytes:
            if not chunk_start <= position <= chunk_start + len(chunk) - HEADER_SIZE:
                chunk, chunk_start = os.pread(file.fd, SCAN_CHUNK_BYTES, position), position
                if len(chunk) < HEADER_SIZE:
                    return
            header = parse_header(chunk, position - chunk_start)
            size_bytes = header.length + LENGTH_PREFIX_BYTES
            if header.magic != MAGIC or size_bytes < HEADER_SIZE or position + size_bytes > self.size_bytes:
                return
            yield position, header
            position += size_bytes

    def batches(self, first_position: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """As `headers`, with the batches themselves: many are read at once."""
        chunk, chunk_start = memoryview(b""), first_position
        for position, header in self.headers(first_position):
            start, size_bytes = position - chunk_start, header.size_bytes
            if start + size_bytes > len(chunk):
                chunk, chunk_start = self.batch_at(position, max(size_bytes, READ_CHUNK_BYTES)), position
                start = 0
            yield header, chunk[start : start + size_bytes]

    def batch_at(self, position: int, size_bytes: int) -> memoryview:
        return memoryview(os.pread(self.file().fd, size_bytes, position))

    def aborted(self) -> list[AbortedTransaction]:
        return [AbortedTransaction(*fields[1:]) for fields in self.aborts.entries()]

    def largest(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the batch that has it; (-1, base offset) if none."""
        return self._largest

    def largest_timestamp(self) -> int:
        """For retention: the largest timestamp of a record, or the file's age if records have none."""
        if self._largest.timestamp >= 0:
            return self._largest.timestamp
        return self.written_ms()

    def written_ms(self) -> int:
        """When the file was last written to."""
        return int(os.stat(self.path).st_mtime * 1000)

    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch, by which the segment ages; -1 if there is none."""
        if self._first_timestamp is None and self.size_bytes >= HEADER_SIZE:
            self._first_timestamp = self.header_at(0).max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def position_by_time(self, timestamp: int) -> int:
        """A position before the first batch whose largest timestamp is at least `timestamp`."""
        number = self.times.last_not_above(timestamp)
        return self.index_position(self.base_offset + self.times.entry(number)[1]) if number >= 0 else 0

    def read_next_offset(self) -> tuple[int, int]:
        """The offset after the last whole batch and the position of its end, found from the last index entry."""
        start = self.offsets.entry(self.offsets.count - 1)[1] if self.offsets.count else 0
        next_offset, end = self.base_offset, start
        for position, header in self.headers(start):
            next_offset, end = header.next_offset, position + header.size_bytes
        return next_offset, end

    def _index_time(self) -> None:
        timestamp, offset, _ = self._largest
        if timestamp > self._indexed_timestamp:
            self.times.append(timestamp, offset - self.base_offset)
            self._indexed_timestamp = timestamp

    def _last_time_entry(self) -> TimestampOffset:
        if not self.times.count:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative = self.times.entry(self.times.count - 1)
        return TimestampOffset(timestamp, self.base_offset + relative)


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
