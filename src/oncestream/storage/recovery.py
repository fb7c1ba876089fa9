"""Opening a log's folder: what is on disk, and after an unclean stop, how much of it is whole.

A torn or damaged tail is cut off, with one log line. Damage that whole batches follow is never cut nor
skipped: the log comes up read-only, up to the damage; unless the journal has the batches from there on, or the machine
may have lost what was not flushed, which is never more than what lies beyond the recovery point.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oncestream.errors import LogCorrupt
from oncestream.records.batch import BatchHeader
from oncestream.records.control import marker_of
from oncestream.storage.config import LogConfig
from oncestream.storage.epochs import LeaderEpochs
from oncestream.storage.index import AbortedTransaction
from oncestream.storage.lookup import batches, segment_number
from oncestream.storage.place import LoadedLog, LogPlace
from oncestream.storage.producers import Producers
from oncestream.storage.scan import Scan, batch_follows, scan_batches
from oncestream.storage.segment import Segment, record_time
from oncestream.storage.snapshot import read_snapshot
from oncestream.storage.tidy import offset_of, tidy

logger = logging.getLogger("oncestream.storage")


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """What the data folder's checkpoints say about one log."""

    clean: bool
    lost_power: bool  # what was written and not flushed may be gone in parts
    recovery_point: int
    start_offset: int
    first_dirty_offset: int | None


def load_log(place: LogPlace, config: LogConfig, known: Checkpointed) -> LoadedLog:
    """Opens the segments of a log, recovers them if need be, and restores its producers."""
    tidy(place)
    segments = _open_segments(place, known.start_offset)
    is_new = not segments
    if is_new:
        segments = [_new_segment(place, known.start_offset)]
    start_offset = max(known.start_offset, segments[0].base_offset)
    loaded = LoadedLog(
        segments=segments,
        producers=Producers(),
        epochs=LeaderEpochs(place.folder, place.disk, place.room),
        start_offset=start_offset,
        end_offset=start_offset,
        opened_ms=place.clock_ms(),
        first_dirty_offset=known.first_dirty_offset,
        is_new=is_new,
    )
    recover_from = None if known.clean or is_new else known.recovery_point
    for segment in segments:
        if recover_from is not None and segment.base_offset >= recover_from:
            break  # its indexes are rebuilt anyhow
        if not _indexes_are_sane(segment):
            logger.warning("indexes of %s are missing or damaged: rebuilding them", segment.path)
            recover_from = segment.base_offset
    if recover_from is None:
        loaded.end_offset, end = segments[-1].read_next_offset()
        if end == segments[-1].size_bytes:
            segments[-1].next_offset = loaded.end_offset
            _restore_producers(loaded, place, loaded.end_offset)
        else:
            recover_from = loaded.end_offset
    if recover_from is not None:
        _Recovery(loaded, place, config, known).run(recover_from)
    if loaded.damage is None:
        _restore_from_journal(loaded, place, config.index_interval_bytes)
    if loaded.end_offset < start_offset and loaded.damage is None:
        _start_over(loaded, place)
    _settle_epochs(loaded, clean=known.clean or is_new)
    _remove_stray_snapshots(loaded, place.folder)
    return loaded


class _Recovery:
    """Scans every batch from a segment on, rebuilding indexes, producers and epochs."""

    def __init__(self, loaded: LoadedLog, place: LogPlace, config: LogConfig, known: Checkpointed) -> None:
        self._loaded = loaded
        self._durable_to = known.recovery_point
        self._lost_power = known.lost_power
        self._place = place
        self._interval = config.index_interval_bytes
        self._holes = config.cleanup_compact or loaded.first_dirty_offset is not None
        self._journaled = {header.base_offset for header, _ in place.journal.left_of(place.key)}

    def run(self, recover_from: int) -> None:
        loaded = self._loaded
        first = segment_number(loaded.segments, recover_from)
        _restore_producers(loaded, self._place, loaded.segments[first].base_offset)
        expected = loaded.segments[first].base_offset
        for number in range(first, len(loaded.segments)):
            segment = loaded.segments[number]
            if expected < segment.base_offset and not self._holes and number > first:
                self._report(segment, expected, 0, f"offsets up to {segment.base_offset - 1} are missing")
                del loaded.segments[number:]
                break
            scan = self._scan(segment, max(expected, segment.base_offset))
            expected = max(expected, scan.next_offset)
            last = number + 1 == len(loaded.segments)
            if scan.problem is not None:
                self._judge(scan, number)
                last = True
            elif not last and self._is_torn_before(loaded.segments[number + 1], expected):
                self._drop_from(number + 1)
                last = True
            self._close_scanned(segment, last=last)
            if last:
                break
        loaded.end_offset = loaded.segments[-1].next_offset = expected
        if expected < self._durable_to and loaded.damage is None:
            last_segment = loaded.segments[-1]
            reason = f"offsets up to {self._durable_to - 1} were durable and are missing"
            self._report(last_segment, expected, last_segment.size_bytes, reason)

    def _scan(self, segment: Segment, expected: int) -> Scan:
        size_bytes = os.stat(segment.path).st_size
        segment.reset_indexes()
        with self._place.room.not_needed_for(f"making the indexes of {segment.path}"):
            segment.create()
        scan = Scan(segment.path, 0, expected, size_bytes, self._holes)
        for header, batch in scan_batches(segment.file(), scan):
            note(self._loaded, segment, header, batch, self._interval)
        return scan

    def _judge(self, scan: Scan, number: int) -> None:
        """The scan stopped early: a tail to cut, or damage to report."""
        loaded = self._loaded
        if not self._is_tail(scan, loaded.segments[number + 1 :]):
            del loaded.segments[number + 1 :]
            self._report(loaded.segments[number], scan.next_offset, scan.position, scan.problem or "")
            return
        cut = scan.size_bytes - scan.position
        logger.warning(
            "%s: cut %d bytes after offset %d from the end of %s: %s",
            self._place.folder.name,
            cut,
            scan.next_offset,
            Path(scan.path).name,
            scan.problem,
        )
        self._place.disk.truncate(loaded.segments[number].file().fd, scan.position)
        self._drop_from(number + 1)

    def _is_tail(self, scan: Scan, later: list[Segment]) -> bool:
        """Whether nothing behind the place where the scan stopped was ever durable, or the journal has it."""
        if scan.next_offset < self._durable_to:
            return False
        if self._lost_power:
            return True
        if scan.misplaced:
            return False
        if scan.next_offset in self._journaled:
            return True
        return not any(segment.size_bytes for segment in later) and not batch_follows(scan)

    def _is_torn_before(self, segment: Segment, expected: int) -> bool:
        """Whether offsets before the segment are missing that the journal has, or that nobody flushed."""
        unflushed = self._lost_power and not self._holes
        return self._durable_to <= expected < segment.base_offset and (
            unflushed or expected in self._journaled
        )

    def _drop_from(self, number: int) -> None:
        """Durably: files of the same names come, and these must not come back in their place."""
        segments = self._loaded.segments
        if number < len(segments):
            for segment in segments[number:]:
                _remove_segment(self._place, segment.base_offset)
            self._place.disk.sync_folder(self._place.folder)
            del segments[number:]

    def _report(self, segment: Segment, offset: int, position: int, reason: str) -> None:
        file = Path(segment.path).name
        self._loaded.damage = LogCorrupt(
            folder=self._place.folder, offset=offset, position=position, file=file, reason=reason
        )
        logger.error("%s", self._loaded.damage)

    def _close_scanned(self, segment: Segment, *, last: bool) -> None:
        """On a full disk indexes stay in memory, and the recovery point where it is, until they are written."""
        segment.forget_recent()
        disk = self._place.disk
        disk.sync(segment.file().fd)
        with self._place.room.not_needed_for(f"writing the indexes of {segment.path}"):
            for file in segment.flush_indexes(closing=not last):
                disk.sync(file.fd)
            if not last:
                segment.freeze()


def _restore_from_journal(loaded: LoadedLog, place: LogPlace, interval: int) -> None:
    """Appends what the journal has beyond the end of the log, durably: it all belongs to the last segment."""
    first_offset = loaded.end_offset
    segment = loaded.segments[-1]
    for header, batch in place.journal.left_of(place.key):
        if header.base_offset < loaded.end_offset:
            continue
        if header.base_offset > loaded.end_offset:
            # Nobody was told of it: what comes before it was not durable.
            logger.warning(
                "%s: the journal goes on at offset %d, the log ends at %d: not used",
                *(place.folder.name, header.base_offset, loaded.end_offset),
            )
            break
        place.disk.write_all(segment.file().fd, batch, segment.size_bytes)
        note(loaded, segment, header, batch, interval)
        loaded.end_offset = header.next_offset
    if loaded.end_offset > first_offset:
        logger.warning(
            "%s: offsets %d to %d restored from the journal",
            *(place.folder.name, first_offset, loaded.end_offset - 1),
        )
        segment.forget_recent()
        place.disk.sync(segment.file().fd)


def note(loaded: LoadedLog, segment: Segment, header: BatchHeader, batch: memoryview, interval: int) -> None:
    """Takes a batch that now lies at the end of a segment into indexes, epochs and producers."""
    segment.note(header.base_offset, header.last_offset, record_time(header), len(batch), interval)
    loaded.epochs.rebuild_from(header.leader_epoch, header.base_offset)
    aborted = replay(loaded, header, batch)
    if aborted is not None:
        segment.note_abort(aborted)


def replay(loaded: LoadedLog, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
    """Takes a batch found on disk into the producers' state; the transaction it aborts, if any."""
    if header.producer_id < 0:
        return None
    producers, now_ms = loaded.producers, loaded.opened_ms
    if not header.is_control:
        producers.apply(header, header.base_offset, now_ms)
        return None
    marker = marker_of(batch, header)
    return None if marker is None else producers.apply_marker(header, marker, header.base_offset, now_ms)


def _open_segments(place: LogPlace, start_offset: int) -> list[Segment]:
    bases = sorted(offset_of(path) for path in place.folder.glob("*.log"))
    segments = []
    for number, base_offset in enumerate(bases):
        live = number + 1 == len(bases)
        if not live and bases[number + 1] <= start_offset:
            _remove_segment(place, base_offset)  # deleted records whose file a crash left behind
            continue
        segments.append(
            Segment(
                place.folder,
                base_offset,
                pool=place.pool,
                disk=place.disk,
                created_ms=place.clock_ms(),
                live=live,
            )
        )
    return segments


def _new_segment(place: LogPlace, base_offset: int) -> Segment:
    segment = Segment(
        place.folder, base_offset, pool=place.pool, disk=place.disk, created_ms=place.clock_ms(), live=True
    )
    segment.create()
    return segment


def _remove_segment(place: LogPlace, base_offset: int) -> None:
    for path in place.folder.glob(f"{base_offset:020d}.*"):
        place.pool.drop(str(path))
        path.unlink()


def _start_over(loaded: LoadedLog, place: LogPlace) -> None:
    """Everything left was deleted before the stop: the log begins, empty, where it was told to."""
    for segment in loaded.segments:
        _remove_segment(place, segment.base_offset)
    loaded.segments[:] = [_new_segment(place, loaded.start_offset)]
    loaded.end_offset = loaded.start_offset


def _indexes_are_sane(segment: Segment) -> bool:
    """Whether the index files exist, are whole, and their last entries point where they should."""
    for index in (segment.offsets, segment.times):
        if not os.path.exists(index.path) or os.stat(index.path).st_size != index.size_bytes:
            return False
    if (
        os.path.exists(segment.aborts.path)
        and os.stat(segment.aborts.path).st_size != segment.aborts.size_bytes
    ):
        return False
    if any(aborted.last_offset < segment.base_offset for aborted in segment.aborted()):
        return False
    if segment.times.count and segment.times.entry(0)[0] > segment.largest().timestamp:
        return False
    if not segment.offsets.count:
        return True
    relative, position = segment.offsets.entry(segment.offsets.count - 1)
    header = next((header for _, header in segment.headers(position)), None) if position >= 0 else None
    return header is not None and header.last_offset == segment.base_offset + relative


def _restore_producers(loaded: LoadedLog, place: LogPlace, end_offset: int) -> None:
    """Producers as they were at `end_offset`: the newest good snapshot, and the batches after it."""
    replay_from = loaded.segments[0].base_offset
    for path in sorted(place.folder.glob("*.snapshot"), reverse=True):
        if not replay_from <= offset_of(path) <= end_offset:
            continue
        producers = read_snapshot(path)
        if producers is not None:
            loaded.producers.load(producers, loaded.opened_ms)
            replay_from = offset_of(path)
            break
        logger.warning("producer snapshot %s is damaged: using an older one", path)
    for header, batch in _batches_between(loaded.segments, replay_from, end_offset):
        replay(loaded, header, batch)


def _batches_between(
    segments: list[Segment], first_offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    return batches(segments, first_offset, end_offset) if first_offset < end_offset else iter(())


def _settle_epochs(loaded: LoadedLog, *, clean: bool) -> None:
    """An unclean stop begins a new epoch, by which clients notice that the tail may have changed."""
    if loaded.damage is not None:
        return
    loaded.epochs.cut_start(loaded.start_offset)  # a crash may have come before it was written
    latest = loaded.epochs.latest
    if latest < 0:
        loaded.epochs.begin(0, loaded.end_offset)
    elif not clean:
        loaded.epochs.cut_end(loaded.end_offset)
        loaded.epochs.begin(latest + 1, loaded.end_offset)


def _remove_stray_snapshots(loaded: LoadedLog, folder: Path) -> None:
    """Keeps the snapshot of every segment and the newest one, as Kafka does."""
    if loaded.damage is not None:
        return
    bases = {segment.base_offset for segment in loaded.segments}
    strays = sorted(path for path in folder.glob("*.snapshot") if offset_of(path) not in bases)
    if strays and loaded.segments[-1].base_offset < offset_of(strays[-1]) <= loaded.end_offset:
        strays.pop()
    for path in strays:
        path.unlink()
