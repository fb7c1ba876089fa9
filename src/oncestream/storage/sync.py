"""Group commit: one ticket makes everything written to a log so far durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from oncestream.storage.disk import Disk
from oncestream.storage.files import OpenFile


@dataclass(slots=True)
class SyncTicket:
    """What is to be synced, taken on the owner's thread; `run` may run on any other."""

    end_offset: int
    rolled: list[OpenFile]
    live: OpenFile | None
    folders: list[Path]
    names_serial: int
    source: Unsynced
    disk: Disk
    error: OSError | None = field(default=None)

    def run(self) -> None:
        """Syncs files before the names that lead to them. A failure is kept in `error` for the log to see."""
        tail = self.source.tail
        if tail is not None and tail[0] is self.live:
            self.end_offset = tail[1]  # what was appended since the ticket was taken comes along
        try:
            for file in self.rolled:
                self.disk.sync(file.fd)
            if self.live is not None:
                self.disk.sync(self.live.fd)
            for folder in self.folders:
                self.disk.sync_folder(folder)
        except OSError as error:
            self.error = error


class Unsynced:
    """What of a log is written but not known to be durable. Holds its files open until it is."""

    def __init__(self, folder: Path, disk: Disk, *, new_folder: bool) -> None:
        self.live: OpenFile | None = None
        # The live file with the end of the last whole batch in it; replaced, never changed: other threads read it.
        self.tail: tuple[OpenFile, int] | None = None
        self._folder = folder
        self._disk = disk
        self._rolled: list[OpenFile] = []
        self._names_serial = 1 if new_folder else 0
        self._names_synced = 0

    @property
    def has_new_names(self) -> bool:
        """Whether the folder, or a file in it, may be gone after a loss of power."""
        return self._names_serial != self._names_synced

    def roll(self, index_files: list[OpenFile]) -> None:
        """The live file is closed, a new one has its name in the folder."""
        if self.live is not None:
            self._rolled.append(self.live)
            self.live = self.tail = None
        self._rolled += index_files
        self._names_serial += 1

    def ticket(self, end_offset: int) -> SyncTicket | None:
        if self.live is None and not self._rolled and not self.has_new_names:
            return None
        folders = [self._folder, self._folder.parent] if self.has_new_names else []
        return SyncTicket(
            end_offset, list(self._rolled), self.live, folders, self._names_serial, self, self._disk
        )

    def done(self, ticket: SyncTicket, end_offset: int) -> None:
        self._rolled = [file for file in self._rolled if file not in ticket.rolled]
        self._names_synced = max(self._names_synced, ticket.names_serial)
        if ticket.end_offset == end_offset:
            self.live = self.tail = None
