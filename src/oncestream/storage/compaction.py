"""Log compaction: of every key, the last record stays; tombstones and old markers go after a while.

A job works on closed segments, which never change, through files of its own, so it can run on another
thread. It writes new segments beside the old ones; `swap.py` puts them in place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from oncestream.records.records import records_of
from oncestream.storage.config import LogConfig
from oncestream.storage.disk import Disk
from oncestream.storage.files import FilePool
from oncestream.storage.filter import BatchFilter, LastRecord, TransactionTrail
from oncestream.storage.index import AbortedTransaction
from oncestream.storage.lookup import aborted, segment_number
from oncestream.storage.producers import Producers
from oncestream.storage.segment import INT32_MAX, Segment, record_time
from oncestream.storage.tidy import CLEANED
from oncestream.wire.error_codes import KafkaError

KEYS_MAX: Final = 500_000  # a map of so many keys takes about 100 MB
JOB_FILES_MAX: Final = 16


class OffsetMap:
    """Last offset of every key of the dirty part, up to `latest`. Keys are kept as digests."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.latest = -1

    def put(self, key: bytes, offset: int) -> bool:
        """False if there is no room for one more key."""
        digest = blake2b(key, digest_size=16).digest()
        if len(self._offsets) >= self._keys_max and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        return True

    def is_latest(self, key: bytes, offset: int) -> bool:
        return offset >= self._offsets.get(blake2b(key, digest_size=16).digest(), -1)


@dataclass(slots=True)
class CompactionJob:
    """What to compact. `run` it on any thread, then hand it back to the log, whatever came of it."""

    folder: Path
    base_offsets: list[int]
    first_dirty_offset: int
    upper_offset: int
    aborted: list[AbortedTransaction]
    last_records: dict[int, LastRecord]
    config: LogConfig
    now_ms: int
    disk: Disk
    keys_max: int = KEYS_MAX
    end_offset: int = -1
    groups: list[list[int]] = field(default_factory=list)
    error: Exception | None = None

    def run(self) -> None:
        """Writes the compacted segments; a failure is kept in `error`, and leaves the log as it was."""
        try:
            pool = FilePool(JOB_FILES_MAX)
            segments = [self._open(base_offset, pool) for base_offset in self.base_offsets]
            offsets = self._map_keys(segments)
            self.end_offset = offsets.latest + 1
            cleanable = [segment for segment in segments if segment.base_offset < self.end_offset]
            batch_filter = BatchFilter(
                offsets.is_latest,
                offsets.latest,
                TransactionTrail(self.aborted),
                self.last_records,
                self.upper_offset,
                self.now_ms,
                self.config.delete_retention_ms,
            )
            for group in self._grouped(cleanable):
                self._compact(group, batch_filter, pool)
                self.groups.append([segment.base_offset for segment in group])
        except (OSError, KafkaError) as error:
            self.error = error

    def _open(self, base_offset: int, pool: FilePool, *, suffix: str = "", live: bool = False) -> Segment:
        return Segment(
            self.folder, base_offset, pool=pool, disk=self.disk, created_ms=0, live=live, suffix=suffix
        )

    def _map_keys(self, segments: list[Segment]) -> OffsetMap:
        offsets = OffsetMap(self.keys_max)
        # One that ended before would be taken for running: its marker lies before where this begins.
        trail = TransactionTrail(a for a in self.aborted if a.last_offset >= self.first_dirty_offset)
        dirty = segments[segment_number(segments, self.first_dirty_offset) :]
        for number, segment in enumerate(dirty):
            for position, header in segment.headers(segment.index_position(self.first_dirty_offset)):
                batch = segment.batch_at(position, header.size_bytes)
                if header.is_control:
                    trail.on_marker(header, batch)
                elif not trail.on_data(header):
                    for record in records_of(batch, header):
                        if record.key is None or record.offset < self.first_dirty_offset:
                            continue
                        if not offsets.put(record.key, record.offset):
                            return offsets
                offsets.latest = max(offsets.latest, header.last_offset)
            last = number + 1 == len(dirty)
            offsets.latest = max(
                offsets.latest, (self.upper_offset if last else dirty[number + 1].base_offset) - 1
            )
        return offsets

    def _grouped(self, segments: list[Segment]) -> list[list[Segment]]:
        """Neighbours that fit into one segment together, so that segments do not shrink to nothing."""
        groups: list[list[Segment]] = []
        for number, segment in enumerate(segments):
            last = number + 1 == len(segments)
            next_offset = self.upper_offset if last else segments[number + 1].base_offset
            if groups and self._fits([*groups[-1], segment], next_offset):
                groups[-1].append(segment)
            else:
                groups.append([segment])
        return groups

    def _fits(self, group: list[Segment], next_offset: int) -> bool:
        return (
            sum(segment.size_bytes for segment in group) <= self.config.segment_bytes
            and sum(segment.offsets.size_bytes for segment in group) <= self.config.segment_index_bytes
            and sum(segment.times.size_bytes for segment in group) <= self.config.segment_index_bytes
            and next_offset - 1 - group[0].base_offset <= INT32_MAX
        )

    def _compact(self, group: list[Segment], batch_filter: BatchFilter, pool: FilePool) -> None:
        base_offset = group[0].base_offset
        for path in self.folder.glob(f"{base_offset:020d}.*{CLEANED}"):
            path.unlink()
        compacted = self._open(base_offset, pool, suffix=CLEANED, live=True)
        compacted.create()
        interval = self.config.index_interval_bytes
        for segment in group:
            for position, header in segment.headers():
                kept = batch_filter.apply(
                    header, segment.batch_at(position, header.size_bytes), compacted.note_abort
                )
                if kept is not None:
                    new, batch = kept
                    compacted.append(batch, new.base_offset, new.last_offset, record_time(new), interval)
        files = compacted.flush_indexes(closing=True)
        for file in (compacted.file(), *files):
            self.disk.sync(file.fd)
        modified = os.stat(group[-1].path).st_mtime
        os.utime(compacted.path, (modified, modified))
        for name in compacted.paths:
            pool.drop(name)


def plan_compaction(
    folder: Path,
    segments: Sequence[Segment],
    producers: Producers,
    config: LogConfig,
    *,
    first_dirty_offset: int,
    stable_offset: int,
    now_ms: int,
    disk: Disk,
) -> CompactionJob | None:
    """The closed segments to compact, if enough of them is dirty or some of it has waited too long."""
    upper_offset = _first_uncleanable(segments, config, first_dirty_offset, stable_offset, now_ms)
    closed = [segment for segment in segments if segment.base_offset < upper_offset]
    if not closed or first_dirty_offset >= upper_offset:
        return None
    dirty = closed[segment_number(closed, first_dirty_offset) :]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    clean_bytes = sum(segment.size_bytes for segment in closed if segment.base_offset < first_dirty_offset)
    if not dirty_bytes:
        return None
    overdue = any(0 < segment.first_timestamp() < now_ms - config.max_compaction_lag_ms for segment in dirty)
    if not overdue and dirty_bytes / (clean_bytes + dirty_bytes) <= config.min_cleanable_dirty_ratio:
        return None
    return CompactionJob(
        folder=folder,
        base_offsets=[segment.base_offset for segment in closed],
        first_dirty_offset=first_dirty_offset,
        upper_offset=upper_offset,
        aborted=aborted(segments, closed[0].base_offset, upper_offset),
        last_records={
            producer.producer_id: LastRecord(
                producer.batches[-1].last_offset if producer.batches else None, producer.epoch
            )
            for producer in producers.by_id.values()
        },
        config=config,
        now_ms=now_ms,
        disk=disk,
    )


def _first_uncleanable(
    segments: Sequence[Segment], config: LogConfig, first_dirty_offset: int, stable_offset: int, now_ms: int
) -> int:
    """Base offset of the first segment that must stay: live, unstable or too young."""
    bound = min(stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        for segment in segments[segment_number(segments, first_dirty_offset) : -1]:
            if segment.largest_timestamp() > now_ms - config.min_compaction_lag_ms:
                bound = min(bound, segment.base_offset)
                break
    return segments[segment_number(segments, bound)].base_offset
