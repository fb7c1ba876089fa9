"""Leftovers in a log's folder: of a crash in the middle of a compaction, a deletion or a rename."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oncestream.storage.disk import Disk
from oncestream.storage.place import LogPlace
from oncestream.storage.segment import SUFFIXES, Segment, segment_path

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


def tidy(place: LogPlace) -> None:
    """Finishes a swap of compacted segments that had begun, drops everything half-made."""
    folder = place.folder
    for pattern in (f"*{CLEANED}", f"*{DELETED}", "*.tmp"):
        for path in folder.glob(pattern):
            path.unlink()
    for path in sorted(folder.glob(f"*.log{SWAP}")):
        _finish_swap(place, offset_of(path))
    for path in folder.glob(f"*{SWAP}"):
        path.unlink()
    bases = {path.stem for path in folder.glob("*.log")}
    for suffix in SUFFIXES[1:]:
        for path in folder.glob(f"*{suffix}"):
            if path.stem not in bases:
                path.unlink()


def rename_swapped(folder: Path, base_offset: int, disk: Disk) -> None:
    """The last step of a swap: the names of the new files become plain, the log's last."""
    for suffix in reversed(SUFFIXES):
        path = segment_path(folder, base_offset, suffix + SWAP)
        if path.exists():
            disk.rename(path, segment_path(folder, base_offset, suffix))


def offset_of(path: Path) -> int:
    """The offset that a file of a log is named after."""
    return int(path.name.partition(".")[0])


def _finish_swap(place: LogPlace, base_offset: int) -> None:
    folder = place.folder
    swapped = Segment(folder, base_offset, pool=place.pool, disk=place.disk, created_ms=0, suffix=SWAP)
    next_offset = max(swapped.read_next_offset()[0], base_offset + 1)
    for path in list(folder.glob("*.log")):
        if base_offset <= offset_of(path) < next_offset:
            for suffix in SUFFIXES:
                segment_path(folder, offset_of(path), suffix).unlink(missing_ok=True)
    for name in swapped.paths:
        place.pool.drop(name)
    rename_swapped(folder, base_offset, place.disk)
    place.disk.sync_folder(folder)
