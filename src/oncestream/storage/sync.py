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
    disk: Disk
    error: OSError | None = field(default=None)

    def run(self) -> None:
        """Syncs files before the names that lead to them. A failure is kept in `error` for the log to see."""
        try:
            for file in self.rolled:
                self.disk.sync(file.fd)
            if self.live is not None:
                self.disk.sync(self.live.fd)
            for folder in self.folders:
                self.disk.sync_folder(folder)
        except OSError as error:
            self.error = error
