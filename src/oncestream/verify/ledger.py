"""Who sent what, in which transaction, and what became of it: a history's writes, indexed.

Takes about 200 bytes for each record sent and 300 for each transaction; polls are not kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import ValueSentTwice
from oncestream.verify.anomalies import Witness
from oncestream.verify.history import NO_OFFSET, NO_TRANSACTION, Event, Kind, Phase, Record

_SENT: Final = (Phase.INVOKE, Phase.OK, Phase.FAILED, Phase.UNKNOWN)


class Fate(Enum):
    """What is known of a transaction's end. MAYBE: its commit was asked for, and nobody knows the answer."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    MAYBE = "outcome unknown"
    OPEN = "never ended"


@dataclass(slots=True)
class Transaction:
    process: str
    number: int
    commit_asked_ns: int | None = None
    commit: Phase = Phase.INVOKE
    aborted: bool = False
    visible: int = 0  # records in the final log
    missing: int = 0  # records that would be there if it was committed

    @property
    def fate(self) -> Fate:
        if self.aborted:
            return Fate.ABORTED
        if self.commit_asked_ns is None:
            return Fate.OPEN
        if self.commit is Phase.OK:
            return Fate.COMMITTED
        return Fate.ABORTED if self.commit is Phase.FAILED else Fate.MAYBE

    @property
    def took_place(self) -> bool:
        return self.fate is Fate.COMMITTED or (self.fate is Fate.MAYBE and self.visible > 0)

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.process} ({self.fate.value})"


@dataclass(slots=True)
class Sends:
    """What was sent to a partition, in columns: row N is the Nth send."""

    at: TopicPartition
    rows: dict[int, int] = field(default_factory=dict)  # by value
    values: array[int] = field(default_factory=lambda: array("q"))
    processes: array[int] = field(default_factory=lambda: array("i"))
    transactions: array[int] = field(default_factory=lambda: array("i"))
    offsets: array[int] = field(default_factory=lambda: array("q"))  # as acknowledged
    phases: bytearray = field(default_factory=bytearray)

    def phase(self, row: int) -> Phase:
        return _SENT[self.phases[row]]


class Ledger:
    """All writes of a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.transactions: list[Transaction] = []
        self.partitions: dict[TopicPartition, Sends] = {}
        self.processes: list[str] = []
        self.events = 0
        self.sent = 0
        self.polled = 0
        self.faults = 0
        self._transactions: dict[tuple[str, int], int] = {}
        self._processes: dict[str, int] = {}
        for event in events:
            self._take(event)

    def transaction_of(self, process: str, number: int) -> int:
        """Its place in `transactions`, or NO_TRANSACTION."""
        return self._transactions.get((process, number), NO_TRANSACTION)

    def sends_to(self, at: TopicPartition) -> Sends:
        found = self.partitions.get(at)
        if found is None:
            found = self.partitions[at] = Sends(at)
        return found

    def fate_of(self, sends: Sends, row: int) -> Fate:
        """Of a record outside of transactions: its acknowledgement is its commit."""
        transaction = sends.transactions[row]
        phase = sends.phase(row)
        if phase is Phase.FAILED:
            return Fate.ABORTED
        if transaction != NO_TRANSACTION:
            return self.transactions[transaction].fate
        return Fate.COMMITTED if phase is Phase.OK else Fate.MAYBE

    def witness(self, sends: Sends, row: int) -> Witness:
        transaction, offset = sends.transactions[row], sends.offsets[row]
        inside = "" if transaction == NO_TRANSACTION else f" in {self.transactions[transaction]}"
        told_by = f"sent by {self.processes[sends.processes[row]]}{inside}: {sends.phase(row)}"
        return Witness(told_by, sends.at, None if offset == NO_OFFSET else offset, sends.values[row])

    def _take(self, event: Event) -> None:
        self.events += 1
        match event.kind:
            case Kind.SEND:
                self._send(event)
            case Kind.POLL:
                self.polled += len(event.records)
            case Kind.BEGIN | Kind.COMMIT | Kind.ABORT:
                self._end(event)
            case Kind.FAULT:
                self.faults += event.phase is Phase.INVOKE
            case _:
                pass

    def _send(self, event: Event) -> None:
        record = event.records[0]
        assert record.value is not None
        sends = self.sends_to(record.at)
        row = sends.rows.get(record.value)
        if row is None:
            row = sends.rows[record.value] = len(sends.values)
            sends.values.append(record.value)
            sends.processes.append(self._process(event.process))
            sends.transactions.append(self._transaction(event))
            sends.offsets.append(NO_OFFSET)
            sends.phases.append(0)
            self.sent += 1
        elif event.phase is Phase.INVOKE:
            raise ValueSentTwice(value=record.value, partition=record.at, process=event.process)
        if event.phase is not Phase.INVOKE:
            sends.phases[row] = _SENT.index(event.phase)
            sends.offsets[row] = record.offset

    def _end(self, event: Event) -> None:
        transaction = self.transactions[self._transaction(event)]
        if event.kind is Kind.ABORT:
            transaction.aborted = transaction.aborted or event.phase is Phase.OK
        elif event.kind is Kind.COMMIT:
            if transaction.commit_asked_ns is None:
                transaction.commit_asked_ns = event.time_ns
            transaction.commit = event.phase

    def _transaction(self, event: Event) -> int:
        if event.transaction == NO_TRANSACTION:
            return NO_TRANSACTION
        key = (event.process, event.transaction)
        found = self._transactions.get(key)
        if found is None:
            found = self._transactions[key] = len(self.transactions)
            self.transactions.append(Transaction(*key))
        return found

    def _process(self, name: str) -> int:
        found = self._processes.get(name)
        if found is None:
            found = self._processes[name] = len(self.processes)
            self.processes.append(name)
        return found


def seen(record: Record, by: Event) -> Witness:
    inside = "" if by.transaction == NO_TRANSACTION else f" in its transaction {by.transaction}"
    return Witness(f"polled by {by.process}{inside}", record.at, record.offset, record.value, by.time_ns)
