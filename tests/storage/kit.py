"""Parts that storage tests share: a clock to turn, a disk to fail, batches, a store to stop and start."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from oncestream.machine import path_of
from oncestream.records.compression import Codec
from oncestream.records.records import Record, build_batch, records_of
from oncestream.storage.config import LogConfig
from oncestream.storage.disk import REAL_DISK, Disk
from oncestream.storage.folder import DataFolder
from oncestream.storage.log import Log
from oncestream.testing.disk import FaultyDisk

TOPIC_ID = bytes(range(16))
START_MS = 1_700_000_000_000
_copies = count()


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class NotingDisk(FaultyDisk):
    """Remembers the names of the files and folders that were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []
        self.folders: list[str] = []

    def sync(self, fd: int) -> None:
        self.files.append(Path(path_of(fd)).name)
        super().sync(fd)

    def sync_folder(self, folder: str | Path) -> None:
        self.folders.append(Path(folder).name)
        super().sync_folder(folder)


class Store:
    """A data folder with one log, which can be stopped cleanly or killed, and started again."""

    def __init__(
        self,
        path: Path,
        config: LogConfig,
        clock: Clock | None = None,
        disk: Disk = REAL_DISK,
        **options: Any,
    ) -> None:
        self.path = path
        self.config = config
        self.clock = clock or Clock()
        self.disk = disk
        self._options = options  # of `DataFolder.open`
        self.folder = DataFolder.open(path, clock_ms=self.clock, disk=disk, **options)
        self.log: Log = self.folder.open_log("events", 0, TOPIC_ID, config)

    @property
    def log_folder(self) -> Path:
        return self.path / "events-0"

    def restart(self) -> Store:
        """A clean stop and start."""
        self.folder.close()
        return Store(self.path, self.config, self.clock, self.disk, **self._options)

    def killed(self) -> Path:
        """The files as kill -9 would leave them now, in a folder of their own."""
        copy = self.path.with_name(f"killed-{next(_copies)}")
        shutil.copytree(self.path, copy)
        return copy

    def reborn(self) -> Store:
        """Start after kill -9."""
        return Store(self.killed(), self.config, self.clock, self.disk, **self._options)

    def sync(self) -> None:
        ticket = self.log.unsynced()
        if ticket is not None:
            ticket.run()
            self.log.synced(ticket)


def batch_of(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = START_MS,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> memoryview:
    """What a producer would send."""
    keys = keys if keys is not None else [b"key"] * len(values)
    records = [
        Record(number, timestamp, key, value)
        for number, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    if producer_id < 0:
        return memoryview(build_batch(records, codec=codec))
    return memoryview(
        build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def records_in(log: Log, offset: int | None = None) -> list[Record]:
    offset = log.start_offset if offset is None else offset
    return [
        record for batch in log.batches(offset) for record in records_of(batch) if record.offset >= offset
    ]


def values_in(log: Log, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in records_in(log, offset)]


def read_bytes(log: Log, offset: int, max_bytes: int = 1 << 30, upper_offset: int | None = None) -> bytes:
    upper_offset = log.end_offset if upper_offset is None else upper_offset
    return b"".join(piece.read() for piece in log.read(offset, max_bytes, upper_offset))
