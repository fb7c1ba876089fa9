"""Puts compacted segments in the place of the old ones, so that a crash at any moment loses nothing.

The new log file's rename to .swap is the decision: before it, a start drops the new files; after it,
a start finishes what follows here. What a step relies on is durable before it begins; the log goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

from oncestream.storage.compaction import CompactionJob
from oncestream.storage.place import LogPlace
from oncestream.storage.segment import SUFFIXES, Segment, segment_path
from oncestream.storage.steps import DiskStep, step
from oncestream.storage.tidy import CLEANED, SWAP, rename_swapped


def swap_in(
    job: CompactionJob, segments: list[Segment], place: LogPlace, is_over: Callable[[], bool]
) -> Generator[DiskStep, None, bool]:
    """Whether the log now stands on the job's segments. Groups whose sources are gone are dropped.

    Where the log has failed, or is deleted, between two steps (`is_over`), nothing more is touched.
    """
    sync_folder = partial(place.disk.sync_folder, place.folder)
    for group in job.groups if job.error is None else ():
        if _find(segments, group) is None:
            continue
        _decide(group[0], place)
        yield from step(sync_folder)
        if is_over():
            return False
        found = _find(segments, group)  # its records may have been deleted meanwhile
        if found is None:
            _remove_all(group[0], place, SWAP)
        else:
            segments[found] = [_swap(group, place)]
        yield from step(sync_folder)
        if is_over():
            return False
    for path in place.folder.glob(f"*{CLEANED}"):
        place.disk.remove(path)
    return job.error is None


def _find(segments: list[Segment], group: list[int]) -> slice | None:
    """Where the group's segments are in the log; None if not all of them are."""
    numbers = [number for number, segment in enumerate(segments) if segment.base_offset in group]
    if [segments[number].base_offset for number in numbers] != group:
        return None
    return slice(numbers[0], numbers[-1] + 1)


def _decide(base_offset: int, place: LogPlace) -> None:
    for suffix in reversed(SUFFIXES):
        cleaned = segment_path(place.folder, base_offset, suffix + CLEANED)
        if cleaned.exists():
            place.disk.rename(cleaned, segment_path(place.folder, base_offset, suffix + SWAP))


def _swap(group: list[int], place: LogPlace) -> Segment:
    folder, base_offset = place.folder, group[0]
    for old in group:
        _remove_all(old, place)
        if old != base_offset:
            _remove(segment_path(folder, old, ".snapshot"), place)
    rename_swapped(folder, base_offset, place.disk)
    return Segment(folder, base_offset, pool=place.pool, disk=place.disk, created_ms=place.clock_ms())


def _remove_all(base_offset: int, place: LogPlace, kind: str = "") -> None:
    for suffix in SUFFIXES:
        _remove(segment_path(place.folder, base_offset, suffix + kind), place)


def _remove(path: Path, place: LogPlace) -> None:
    place.pool.drop(str(path))
    place.disk.remove(path)
