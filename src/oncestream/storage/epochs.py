"""Leader epochs of a log: which epoch began at which offset."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from oncestream.storage.checkpoints import lines_of, read_lines
from oncestream.storage.disk import Disk
from oncestream.storage.room import Room

FILE_NAME: Final = "leader-epoch-checkpoint"
UNKNOWN: Final = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs in rising order. A new one is written at once, or, as what is cut off, with the next `flush`."""

    def __init__(self, folder: Path, disk: Disk, room: Room) -> None:
        self._path = folder / FILE_NAME
        self._disk = disk
        self._room = room
        self.is_written = True
        self._is_retired = False
        self._writing = Lock()
        self._starts = _read(self._path)  # replaced, never changed: other threads read it

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 if there is none yet."""
        return self._starts[-1].epoch if self._starts else UNKNOWN

    def begin(self, epoch: int, start_offset: int) -> None:
        if self._assign(epoch, start_offset):
            self._write()

    def rebuild_from(self, epoch: int, start_offset: int) -> None:
        """As `begin`, from a batch found on disk during recovery; written at the next change."""
        self._assign(epoch, start_offset)

    def cut_end(self, end_offset: int) -> None:
        kept = [start for start in self._starts if start.start_offset < end_offset]
        if len(kept) != len(self._starts):
            self._starts = kept
            self._write()

    def cut_start(self, start_offset: int) -> None:
        """The epoch that was running at the new start begins there; older ones are forgotten."""
        older = [start for start in self._starts if start.start_offset <= start_offset]
        if older and (len(older) > 1 or older[0].start_offset != start_offset):
            self._starts = [EpochStart(older[-1].epoch, start_offset), *self._starts[len(older) :]]
            self.is_written = False

    def flush(self) -> None:
        """Writes what is not written yet, on any thread. Until then recovery must find it in the batches."""
        with self._writing:
            if self.is_written or self._is_retired:
                return
            starts = self._starts
            content = lines_of([f"{epoch} {offset}" for epoch, offset in starts])
            # The first epoch is found again in the batches; a bump must outlive a power cut.
            self._disk.replace_file(self._path, content, durable=starts != [] and starts[-1].epoch > 0)
            self.is_written = starts is self._starts

    def retire(self) -> None:
        """The log is deleted: its file may soon be another's."""
        with self._writing:
            self._is_retired = True

    def end_offset_of(self, epoch: int, log_end_offset: int) -> EpochStart:
        """The largest epoch not above `epoch` and where it ended: OffsetForLeaderEpoch."""
        if epoch == UNKNOWN or epoch > self.latest:
            return EpochStart(UNKNOWN, UNKNOWN)
        if epoch == self.latest:
            return EpochStart(epoch, log_end_offset)
        higher = next(start for start in self._starts if start.epoch > epoch)
        lower = [start for start in self._starts if start.epoch <= epoch]
        return EpochStart(lower[-1].epoch if lower else epoch, higher.start_offset)

    def _assign(self, epoch: int, start_offset: int) -> bool:
        if epoch <= self.latest:
            return False
        kept = [start for start in self._starts if start.start_offset < start_offset]
        self._starts = [*kept, EpochStart(epoch, start_offset)]
        return True

    def _write(self) -> None:
        self.is_written = False
        with self._room.not_needed_for(f"writing {self._path}"):
            self.flush()


def _read(path: Path) -> list[EpochStart]:
    """Nothing if the file is damaged: recovery finds epochs again in the batches."""
    try:
        pairs = [line.split(" ") for line in read_lines(path) or []]
        return [EpochStart(int(epoch), int(offset)) for epoch, offset in pairs]
    except ValueError:
        return []
