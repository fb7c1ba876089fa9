"""The journal: one flush makes what was appended to all logs durable.

A batch goes to the file of its log and, behind all others, to the journal. Only the journal is flushed before the
batch is acknowledged: one file for any number of logs, whose size does not change once it has been used to its end,
which makes its flush cheap. The logs' own files are flushed when the journal is full (they are settled then), while
a second file takes its turn. After a crash each log is recovered as far as its files go; what follows is taken from
here.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from oncestream.records.batch import CRC_START, HEADER_SIZE, BatchHeader, is_valid_batch, parse_header
from oncestream.records.crc import crc32c
from oncestream.storage.disk import Disk
from oncestream.storage.durability import Durability
from oncestream.storage.files import OpenFile

logger = logging.getLogger("oncestream.storage")

FILE_NAMES: Final = (".journal-0", ".journal-1")
FULL_BYTES: Final = 32 * 1024 * 1024
# To flush a larger one where it lies costs no more than to write it twice.
BATCH_BYTES_MAX: Final = 64 * 1024
ENTRIES_PER_WRITE_MAX: Final = 512  # each has two parts, and the system takes 1,024

_MAGIC: Final = b"once-j-1"
_SALT_BYTES: Final = 8
_HEAD: Final = struct.Struct(f">8sQ{_SALT_BYTES}s")  # magic, turn, salt: every entry of the turn has it
_CRC: Final = struct.Struct(">I")
_KEY: Final = struct.Struct(">16si")
_SIZE: Final = struct.Struct(">i")
_FIRST_ENTRY: Final = _HEAD.size + _CRC.size
_ENTRY_BYTES: Final = _CRC.size + _SALT_BYTES + _KEY.size + _SIZE.size  # before its batch


Entry = tuple[BatchHeader, memoryview]  # a batch that the journal holds


class LogKey(NamedTuple):
    topic_id: bytes
    partition: int

    def pack(self) -> bytes:
        return _KEY.pack(*self)


class Journal:
    """Two files that take turns. Owned by one thread; flushes run on others."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.active = False  # whether batches are taken
        self.full_bytes = FULL_BYTES
        self.batch_bytes_max = BATCH_BYTES_MAX
        self._folder = folder
        self._disk = disk
        self._paths = [folder / name for name in FILE_NAMES]
        self._left = read_journal(self._paths)
        self._turn = 0
        self._salt = b""
        self._position = 0
        self._file: OpenFile | None = None
        # What a flush must cover; replaced, never changed: other threads read it.
        self._unsynced: tuple[OpenFile, ...] = ()
        self._names = self._names_synced = 0
        self._other_free = True
        self._held = False
        self._parts: list[memoryview | bytes] = []  # of entries that are to be written
        self._takers: list[tuple[Durability, int]] = []  # whose they are, and where their batches end

    # -- after a crash ------------------------------------------------------------------------

    def left_of(self, key: LogKey) -> Sequence[Entry]:
        """The batches of a log that were here when the broker started, in order."""
        return self._left.get(key, ())

    def restored(self, key: LogKey) -> None:
        """The log has them all, durably."""
        self._left.pop(key, None)

    def start(self, topic_ids: Container[bytes], *, active: bool) -> None:
        """All logs are open: it begins anew, unless one of a topic that there is has not taken over what it has."""
        kept = [key for key in self._left if key.topic_id in topic_ids]
        if kept:
            logger.error(
                "the journal in %s is kept for %d logs that could not be restored", self._folder, len(kept)
            )
            return
        self._left.clear()
        self.remove()
        self.active = active

    def remove(self) -> None:
        """Nobody needs what is in it."""
        self.active = False
        self._file = None
        for path in self._paths:
            path.unlink(missing_ok=True)

    # -- appending ----------------------------------------------------------------------------

    def add(self, log: Durability, batch: memoryview, end_offset: int) -> bool:
        """Whether the stamped batch will be durable with the next flush; if not, its log's file must be flushed."""
        size = len(batch)
        if size > self.batch_bytes_max:
            return False
        if self._file is None:
            try:
                self._begin()
            except OSError:
                return False
        head = b"".join((self._salt, log.journal_key, _SIZE.pack(size), batch[:CRC_START]))
        self._parts += (_CRC.pack(crc32c(head)) + head, batch[CRC_START:])
        self._takers.append((log, end_offset))
        if not self._held or len(self._takers) >= ENTRIES_PER_WRITE_MAX:
            self._write()
        return True

    def hold(self) -> None:
        """From now on batches are collected, to be written together when they are let go."""
        self._held = True

    def let_go(self) -> None:
        """Before the memory that the batches lie in is used again, and before anything is flushed."""
        self._held = False
        if self._takers:
            self._write()

    def _write(self) -> None:
        parts, takers = self._parts, self._takers
        self._parts, self._takers = [], []
        assert self._file is not None
        try:
            written = self._disk.write_parts(self._file.fd, parts, self._position)
        except OSError:
            written = 0
        if written != sum(map(len, parts)):
            self._write_rest(self._file, parts, takers, written)
            return
        self._position += written
        for log, end_offset in takers:
            log.in_journal(end_offset)

    def _write_rest(
        self,
        file: OpenFile,
        parts: list[memoryview | bytes],
        takers: list[tuple[Durability, int]],
        written: int,
    ) -> None:
        """Each whole entry counts. Where one fails the journal ends for a reader, until another takes its place."""
        for (log, end_offset), head, rest in zip(takers, parts[::2], parts[1::2], strict=True):
            entry = b"".join((head, rest))
            try:
                if written < len(entry):
                    self._disk.write_all(file.fd, entry, self._position)
            except OSError:
                log.left_out(end_offset)
            else:
                self._position += len(entry)
                log.in_journal(end_offset)
            written -= len(entry)

    @property
    def is_full(self) -> bool:
        """Whether the other file should take its turn, and can."""
        return self._position >= self.full_bytes and self._other_free

    def switch(self) -> bool:
        """The other file takes its turn. The logs that have batches in this one are to be settled: then `freed`."""
        if not self.active or self._file is None or not self._other_free:
            return False
        if self._takers:
            self._write()
        try:
            self._begin()
        except OSError:
            return False
        self._other_free = False
        return True

    def freed(self) -> None:
        """What is in the file whose turn is over is in the logs' own files, durably."""
        self._other_free = True

    def stop(self) -> None:
        """Takes no more batches; those it has are kept for the next start."""
        self.active = False

    # -- flushing -----------------------------------------------------------------------------

    def flush(self, logs: Sequence[Durability]) -> JournalFlush:
        return JournalFlush(self, logs)

    def synced(self, flush: JournalFlush) -> None:
        """The flush went well."""
        self._names_synced = max(self._names_synced, flush.names)
        self._unsynced = tuple(file for file in self._unsynced if file not in flush.finished)

    def sync_for(self, flush: JournalFlush) -> None:
        """On any thread. A file is done with only if its turn was over before its sync began."""
        files, flush.names = self._unsynced, self._names
        flush.finished = [file for file in files if file is not self._file]
        for file in files:
            self._disk.sync(file.fd)
        if flush.names != self._names_synced:
            self._disk.sync_folder(self._folder)

    def _begin(self) -> OpenFile:
        turn = self._turn + 1
        path = self._paths[turn % 2]
        salt = os.urandom(_SALT_BYTES)
        head = _HEAD.pack(_MAGIC, turn, salt)
        if not path.exists():
            self._disk.make_file(path)
            self._names += 1
        file = OpenFile(str(path))
        self._disk.write_all(file.fd, head + _CRC.pack(crc32c(head)), 0)
        self._turn, self._salt, self._position, self._file = turn, salt, _FIRST_ENTRY, file
        self._unsynced = (*self._unsynced, file)
        return file


@dataclass(slots=True)
class JournalFlush:
    """Made on the owner's thread; `run` may run on any other."""

    journal: Journal
    logs: Sequence[Durability]
    ends: list[int] = field(default_factory=list)
    finished: list[OpenFile] = field(default_factory=list)
    names: int = 0
    error: OSError | None = None

    def run(self) -> None:
        """`ends`: up to where each log is durable then. A failure is kept in `error`."""
        self.ends = [log.journal_end for log in self.logs]
        try:
            self.journal.sync_for(self)
        except OSError as error:
            self.error = error


def read_journal(paths: Sequence[Path]) -> dict[LogKey, list[Entry]]:
    """The batches of each log in the order in which they were appended.

    Of the turn before the last a part may be missing: where the system wrote them out of order, its end, which then
    nobody was told of; where its file is about to be used again, anything, for then the logs have it.
    """
    found: dict[LogKey, list[Entry]] = {}
    turns = [turn for path in paths if (turn := _open_turn(path)) is not None]
    for _, salt, data in sorted(turns, key=itemgetter(0)):
        for key, entry in _entries(data, salt):
            found.setdefault(key, []).append(entry)
    return found


def _open_turn(path: Path) -> tuple[int, bytes, memoryview] | None:
    if not path.exists() or path.stat().st_size < _FIRST_ENTRY:
        return None
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if _CRC.unpack_from(data, _HEAD.size)[0] != crc32c(data[: _HEAD.size]):
        return None
    magic, number, salt = _HEAD.unpack_from(data)
    return (number, salt, data) if magic == _MAGIC else None


def _entries(data: memoryview, salt: bytes) -> Iterator[tuple[LogKey, Entry]]:
    """Whole entries of this turn; the first that is not one is where the turn, or what is left of it, ends."""
    position = _FIRST_ENTRY
    while position + _ENTRY_BYTES + HEADER_SIZE <= len(data):
        (crc,) = _CRC.unpack_from(data, position)
        head = position + _CRC.size
        start = position + _ENTRY_BYTES
        (size,) = _SIZE.unpack_from(data, start - _SIZE.size)
        stop = start + size
        if data[head : head + _SALT_BYTES] != salt or not start + HEADER_SIZE <= stop <= len(data):
            return
        batch = data[start:stop]
        header = parse_header(batch)
        if (
            crc32c(data[head : start + CRC_START]) != crc
            or header.size_bytes != size
            or not is_valid_batch(batch, header)
        ):
            return
        yield LogKey(*_KEY.unpack_from(data, head + _SALT_BYTES)), (header, batch)
        position = stop
