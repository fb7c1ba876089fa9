"""What of a log is durable: all marks of it in one object, and the files that a sync must still cover.

The rule: `settled_offset` <= `synced_offset` <= `end_offset`, and no mark ever goes back. Group commit asks this object
what to flush, and tells it what was flushed; it keeps no mark of its own.
"""

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
    source: Durability
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


class Durability:
    """The marks of one log. Holds files open until they are durable. Owned by one thread; tickets run on others."""

    def __init__(
        self, journal_key: bytes, folder: Path, disk: Disk, *, end_offset: int, new_folder: bool
    ) -> None:
        self.journal_key = journal_key
        self.end_offset = end_offset  # below it all is written to the files
        self.synced_offset = end_offset  # below it all is durable, in the files or in the journal
        self.settled_offset = end_offset  # below it all is durable in the files
        self.journal_end = end_offset  # the end of the last batch that the journal has
        self._unjournaled_end = 0  # the end of the last batch that the journal does not have
        self.live: OpenFile | None = None  # the file that grows, if some of it is not durable
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

    @property
    def is_journaled(self) -> bool:
        """Whether the journal has everything that is not settled, so that its flush makes it durable."""
        return self._unjournaled_end <= self.settled_offset

    @property
    def needs_journal(self) -> bool:
        """Whether the journal has what the files may lack."""
        return self.journal_end > self.settled_offset

    # -- what was written ---------------------------------------------------------------------

    def wrote(self, file: OpenFile, end_offset: int) -> None:
        """A batch lies in the live file, and ends there."""
        assert end_offset > self.end_offset
        self.end_offset = end_offset
        self.tail = (file, end_offset)

    def in_journal(self, end_offset: int) -> None:
        """The journal has the batch that ends there."""
        assert self.journal_end < end_offset
        self.journal_end = end_offset

    def left_out(self, end_offset: int) -> None:
        """The journal does not have the batch that ends there. It may be told of an earlier one later."""
        self._unjournaled_end = max(self._unjournaled_end, end_offset)

    def rolled(self, index_files: list[OpenFile]) -> None:
        """The live file is closed, a new one has its name in the folder."""
        if self.live is not None:
            self._rolled.append(self.live)
            self.live = self.tail = None
        self._rolled += index_files
        self._names_serial += 1

    def begins_at(self, start_offset: int) -> None:
        """What lies below was deleted: nobody misses it."""
        self._move(start_offset, self.settled_offset)

    # -- what is durable ----------------------------------------------------------------------

    def ticket(self) -> SyncTicket | None:
        """What a sync must cover to make everything written so far durable; None if it is."""
        if self.live is None and not self._rolled and not self.has_new_names:
            return None
        folders = [self._folder, self._folder.parent] if self.has_new_names else []
        return SyncTicket(
            self.end_offset, list(self._rolled), self.live, folders, self._names_serial, self, self._disk
        )

    def settled(self, ticket: SyncTicket) -> None:
        """The ticket has run, and well."""
        self._rolled = [file for file in self._rolled if file not in ticket.rolled]
        self._names_synced = max(self._names_synced, ticket.names_serial)
        if ticket.end_offset == self.end_offset:
            self.live = self.tail = None
        self._move(ticket.end_offset, ticket.end_offset)

    def journaled(self, end_offset: int) -> None:
        """The journal was flushed when its last batch of this log ended there."""
        if self.is_journaled:
            self._move(end_offset, self.settled_offset)

    def _move(self, synced_offset: int, settled_offset: int) -> None:
        """Forward, as far as these say, or not at all."""
        self.synced_offset = max(self.synced_offset, synced_offset)
        self.settled_offset = max(self.settled_offset, settled_offset)
        assert self.settled_offset <= self.synced_offset <= self.end_offset
