"""Puts compacted segments in the place of the old ones, so that a crash at any moment loses nothing.

The new log file's rename to .swap is the decision: before it, a start drops the new files; after it,
a start finishes what follows here.
"""

from __future__ import annotations

from pathlib import Path

from oncestream.storage.compaction import CompactionJob
from oncestream.storage.place import LogPlace
from oncestream.storage.segment import SUFFIXES, Segment, segment_path
from oncestream.storage.tidy import CLEANED, SWAP, rename_swapped


def swap_in(job: CompactionJob, segments: list[Segment], place: LogPlace) -> bool:
    """Whether the log now stands on the job's segments. Groups whose sources are gone are dropped."""
    for group in job.groups if job.error is None else ():
        numbers = [number for number, segment in enumerate(segments) if segment.base_offset in group]
        if [segments[number].base_offset for number in numbers] == group:
            segments[numbers[0] : numbers[-1] + 1] = [_swap(group, place)]
    for path in place.folder.glob(f"*{CLEANED}"):
        place.disk.remove(path)
    return job.error is None


def _swap(group: list[int], place: LogPlace) -> Segment:
    folder, base_offset = place.folder, group[0]
    for suffix in reversed(SUFFIXES):
        cleaned = segment_path(folder, base_offset, suffix + CLEANED)
        if cleaned.exists():
            place.disk.rename(cleaned, segment_path(folder, base_offset, suffix + SWAP))
    place.disk.sync_folder(folder)
    for old in group:
        for suffix in SUFFIXES if old == base_offset else (*SUFFIXES, ".snapshot"):
            _remove(segment_path(folder, old, suffix), place)
    rename_swapped(folder, base_offset, place.disk)
    place.disk.sync_folder(folder)
    return Segment(folder, base_offset, pool=place.pool, disk=place.disk, created_ms=place.clock_ms())


def _remove(path: Path, place: LogPlace) -> None:
    place.pool.drop(str(path))
    place.disk.remove(path)
