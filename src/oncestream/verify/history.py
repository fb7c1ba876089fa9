"""What clients of a log did and saw, as JSON lines: one event each, appended as it happens.

A killed process leaves a usable history: what was asked and never answered counts as unknown.
Times are of the monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import HistoryUnreadable

NO_OFFSET: Final = -1
NO_TRANSACTION: Final = -1


class Kind(StrEnum):
    """What was done. BEGIN to POLL belong to clients; FAULT and MEMORY are notes of whoever ran the test."""

    BEGIN = "begin"
    SEND = "send"
    OFFSETS = "offsets"
    COMMIT = "commit"
    ABORT = "abort"
    ASSIGN = "assign"
    SEEK = "seek"
    POLL = "poll"
    FAULT = "fault"
    MEMORY = "memory"


class Phase(StrEnum):
    """INVOKE, then one of the others, or none of them where the process died."""

    INVOKE = "invoke"
    OK = "ok"
    FAILED = "failed"  # it did surely not happen
    UNKNOWN = "unknown"  # it may have happened, or may happen yet


class Record(NamedTuple):
    """A value in a partition: numbers, each sent at most once to a partition. Positions have no value."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    value: int | None = None

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Event(NamedTuple):
    """One line. A process is one client, or a producer and a consumer that work in turns, in one thread.

    `records`: what is sent (with its offset once that is known), what a poll returned, or positions.
    `transaction` counts the process's transactions. A completed SEND is paired with its invocation by its value.
    """

    kind: Kind
    phase: Phase
    process: str
    time_ns: int
    transaction: int = NO_TRANSACTION
    records: tuple[Record, ...] = ()
    note: str = ""
    amount: int = 0

    def line(self) -> str:
        content: dict[str, Any] = {
            "kind": self.kind,
            "phase": self.phase,
            "process": self.process,
            "time_ns": self.time_ns,
        }
        if self.transaction != NO_TRANSACTION:
            content["transaction"] = self.transaction
        if self.records:
            content["records"] = self.records
        if self.note:
            content["note"] = self.note
        if self.amount:
            content["amount"] = self.amount
        return json.dumps(content, separators=(",", ":")) + "\n"

    @staticmethod
    def of_line(line: str | bytes) -> Event:
        content = json.loads(line)
        return Event(
            _KINDS[content["kind"]],
            _PHASES[content["phase"]],
            content["process"],
            content["time_ns"],
            content.get("transaction", NO_TRANSACTION),
            tuple(Record(*record) for record in content.get("records", ())),
            content.get("note", ""),
            content.get("amount", 0),
        )


_KINDS: Final = {kind.value: kind for kind in Kind}
_PHASES: Final = {phase.value: phase for phase in Phase}


class History:
    """Events of several files, in the order of time. Each walk reads the files again: none is kept in memory."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = sorted(files)

    @staticmethod
    def of_folder(folder: Path) -> History:
        return History(folder.glob("*.jsonl"))

    def __iter__(self) -> Iterator[Event]:
        return heapq.merge(*map(_events, self.files), key=lambda event: event.time_ns)


class HistoryWriter:
    """Appends events to a file of its own. The operating system has each when `write` returns: SIGKILL loses none."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(
        self,
        kind: Kind,
        phase: Phase,
        process: str,
        *,
        transaction: int = NO_TRANSACTION,
        records: tuple[Record, ...] = (),
        note: str = "",
        amount: int = 0,
    ) -> None:
        event = Event(kind, phase, process, time.monotonic_ns(), transaction, records, note, amount)
        line = event.line().encode()
        if os.write(self._file, line) != len(line):
            raise OSError(errno.ENOSPC, "only a part of an event could be written")

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _events(file: Path) -> Iterator[Event]:
    """Those of one file; half a last line is what a killed process left."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield Event.of_line(line)
            except (ValueError, TypeError, KeyError) as error:
                raise HistoryUnreadable(file=file, line=number, reason=error) from error
