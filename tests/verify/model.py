"""A log with transactions as it should be, small enough to be right, and what clients of it write down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_OFFSET, NO_TRANSACTION, Event, Kind, Phase
from tests.verify.kit import A, B, Story

PARTITIONS: Final = (A, B)
PROCESSES: Final = ("p0", "p1", "p2")
POLLED_MAX: Final = 3


@dataclass
class Attempt:
    """A transaction as the log knows it."""

    process: str
    number: int
    state: str = "open"
    touched: set[TopicPartition] = field(default_factory=set)
    doubtful: bool = False  # a send got no answer: a client does not commit then


@dataclass
class Entry:
    value: int
    attempt: Attempt | None  # None: outside of transactions

    @property
    def is_visible(self) -> bool:
        return self.attempt is None or self.attempt.state == "committed"


class Model:
    """Each process produces and polls; a poll inside of its transaction belongs to that."""

    def __init__(self) -> None:
        self.story = Story()
        self.logs: dict[TopicPartition, list[Entry | None]] = {at: [] for at in PARTITIONS}
        self._open: dict[str, Attempt] = {}
        self._numbers = dict.fromkeys(PROCESSES, 0)
        self._positions = {(process, at): 0 for process in PROCESSES for at in PARTITIONS}
        self._value = 0

    def step(self, action: str, process: str, at: TopicPartition, luck: int) -> None:
        getattr(self, action)(process, at, luck)

    def send(self, process: str, at: TopicPartition, luck: int) -> None:
        """In the open transaction. Sometimes the answer is lost, and sometimes the record as well."""
        attempt = self._open.get(process)
        if attempt is None:
            attempt = self._open[process] = Attempt(process, self._numbers[process])
            self._numbers[process] += 1
        attempt.touched.add(at)
        self._append(process, at, luck, attempt)

    def send_alone(self, process: str, at: TopicPartition, luck: int) -> None:
        self._append(process, at, luck, None)

    def commit(self, process: str, _at: TopicPartition, luck: int) -> None:
        attempt = self._open.get(process)
        if attempt is None:
            return
        if attempt.doubtful:
            self.abort(process, _at, luck)
            return
        answer = Phase.OK if luck > 2 else (Phase.UNKNOWN, Phase.INVOKE, Phase.UNKNOWN)[luck]
        self._end(attempt, "aborted" if luck == 0 else "committed")
        self.story.commit(process, attempt.number, answer)

    def abort(self, process: str, _at: TopicPartition, _luck: int) -> None:
        attempt = self._open.get(process)
        if attempt is not None:
            self.story.abort(process, attempt.number)
            self._end(attempt, "aborted")

    def poll(self, process: str, at: TopicPartition, _luck: int) -> None:
        """Up to the last stable offset."""
        log, position = self.logs[at], self._positions[process, at]
        found: list[tuple[int, int]] = []
        while position < len(log) and len(found) < POLLED_MAX:
            entry = log[position]
            if entry is not None and entry.attempt is not None and entry.attempt.state == "open":
                break
            if entry is not None and entry.is_visible:
                found.append((position, entry.value))
            position += 1
        attempt = self._open.get(process)
        if found:
            number = NO_TRANSACTION if attempt is None else attempt.number
            self.story.poll(process, *found, at=at, transaction=number)
            self._positions[process, at] = found[-1][0] + 1

    def seek(self, process: str, at: TopicPartition, luck: int) -> None:
        self._positions[process, at] = min(luck, len(self.logs[at]))
        self.story.seek(process, self._positions[process, at], at)

    def final_logs(self) -> dict[TopicPartition, FinalLog]:
        return {
            at: FinalLog.of(
                at,
                [
                    (offset, entry.value)
                    for offset, entry in enumerate(log)
                    if entry is not None and entry.is_visible
                ],
            )
            for at, log in self.logs.items()
        }

    def _append(self, process: str, at: TopicPartition, luck: int, attempt: Attempt | None) -> None:
        self._value += 1
        number = NO_TRANSACTION if attempt is None else attempt.number
        if luck > 1:
            self.story.send(process, number, self._value, at, offset=len(self.logs[at]))
        else:
            self.story.send(process, number, self._value, at, offset=NO_OFFSET, phase=Phase.UNKNOWN)
            if attempt is not None:
                attempt.doubtful = True
        if luck > 0:
            self.logs[at].append(Entry(self._value, attempt))

    def _end(self, attempt: Attempt, state: str) -> None:
        attempt.state = state
        for at in attempt.touched:
            self.logs[at].append(None)
        del self._open[attempt.process]


def acknowledged(events: list[Event]) -> dict[tuple[TopicPartition, int], tuple[str, int]]:
    """Who sent each value of a transaction that was surely committed."""
    committed = {
        (event.process, event.transaction)
        for event in events
        if event.kind is Kind.COMMIT and event.phase is Phase.OK
    }
    return {
        (record.at, record.value): (event.process, event.transaction)
        for event in events
        if event.kind is Kind.SEND
        for record in event.records
        if record.value is not None and (event.process, event.transaction) in committed
    }
