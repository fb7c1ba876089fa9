"""Hand-made histories: clients that do what a test tells them, at times that only count up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import ALLOWED_BY_KAFKA, Anomaly
from oncestream.verify.checker import check
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import NO_OFFSET, NO_TRANSACTION, Event, Kind, Phase, Record
from oncestream.verify.report import Report

A: Final = TopicPartition("a", 0)
B: Final = TopicPartition("b", 0)

Log = Sequence[tuple[int, int]]


@dataclass
class Story:
    """Events in the order of the calls; then a check against the logs that a test says were left."""

    events: list[Event] = field(default_factory=list)

    def send(
        self,
        process: str,
        transaction: int,
        value: int,
        at: TopicPartition = A,
        *,
        offset: int = NO_OFFSET,
        phase: Phase = Phase.OK,
    ) -> None:
        """Asked and answered; with phase INVOKE never answered."""
        self.add(Kind.SEND, Phase.INVOKE, process, transaction, Record(*at, NO_OFFSET, value))
        if phase is not Phase.INVOKE:
            self.add(Kind.SEND, phase, process, transaction, Record(*at, offset, value))

    def commit(self, process: str, transaction: int, phase: Phase = Phase.OK) -> None:
        self.add(Kind.COMMIT, Phase.INVOKE, process, transaction)
        if phase is not Phase.INVOKE:
            self.add(Kind.COMMIT, phase, process, transaction)

    def abort(self, process: str, transaction: int) -> None:
        self.add(Kind.ABORT, Phase.INVOKE, process, transaction)
        self.add(Kind.ABORT, Phase.OK, process, transaction)

    def committed(self, process: str, transaction: int, *values: int, at: TopicPartition = A) -> None:
        for value in values:
            self.send(process, transaction, value, at)
        self.commit(process, transaction)

    def poll(
        self,
        process: str,
        *records: tuple[int, int],
        at: TopicPartition = A,
        transaction: int = NO_TRANSACTION,
    ) -> None:
        """Of (offset, value)."""
        self.add(
            Kind.POLL,
            Phase.OK,
            process,
            transaction,
            *(Record(*at, offset, value) for offset, value in records),
        )

    def assign(self, process: str, *positions: tuple[TopicPartition, int]) -> None:
        self.add(Kind.ASSIGN, Phase.OK, process, NO_TRANSACTION, *(Record(*at, to) for at, to in positions))

    def seek(self, process: str, offset: int, at: TopicPartition = A) -> None:
        self.add(Kind.SEEK, Phase.OK, process, NO_TRANSACTION, Record(*at, offset))

    def add_commits_asked(self, *processes: str) -> None:
        for process in processes:
            self.add(Kind.COMMIT, Phase.INVOKE, process, 0)

    def add_commits_done(self, *processes: str) -> None:
        for process in processes:
            self.add(Kind.COMMIT, Phase.OK, process, 0)

    def add(self, kind: Kind, phase: Phase, process: str, transaction: int, *records: Record) -> None:
        self.events.append(Event(kind, phase, process, len(self.events), transaction, records))

    def check(
        self, a: Log = (), b: Log = (), *, start: int = 0, allowed: frozenset[Anomaly] = ALLOWED_BY_KAFKA
    ) -> Report:
        logs = {A: FinalLog.of(A, a, start), B: FinalLog.of(B, b)}
        return check(self.events, final_logs=logs, allowed=allowed)

    def counts(self, a: Log = (), b: Log = ()) -> dict[Anomaly, int]:
        return dict(self.check(a, b).counts)
