"""What a log is made of: where it lies and what it works with, and what opening its folder found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oncestream.errors import LogCorrupt
from oncestream.storage.disk import Disk
from oncestream.storage.epochs import LeaderEpochs
from oncestream.storage.files import FilePool
from oncestream.storage.journal import Journal, LogKey
from oncestream.storage.producers import Producers
from oncestream.storage.room import Room
from oncestream.storage.segment import Segment
from oncestream.storage.steps import Steps


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Which log this is, and what it works with."""

    topic: str
    partition: int
    topic_id: bytes
    folder: Path
    pool: FilePool
    disk: Disk
    room: Room
    journal: Journal
    clock_ms: Callable[[], int]
    persist_offsets: Callable[[], Steps]
    persist_recovery_point: Callable[[int], Steps]

    @property
    def key(self) -> LogKey:
        return LogKey(self.topic_id, self.partition)


@dataclass(slots=True)
class LoadedLog:
    """What opening a log's folder found."""

    segments: list[Segment]
    producers: Producers
    epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    opened_ms: int  # producers found on disk count as if they had appended then
    first_dirty_offset: int | None  # None: never compacted, so offsets have no holes
    is_new: bool
    damage: LogCorrupt | None = None
