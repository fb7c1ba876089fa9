"""The anomalies by name, and those found: every one is counted, the first of each kind are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from oncestream.client.topic_partition import TopicPartition

KEPT_MAX: Final = 100  # of each kind, with the records around them


class Anomaly(Enum):
    """What a log with transactions must not do, or (the last three) may do but a reader should know of."""

    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    ABORTED_READ = "aborted read"
    TORN_TRANSACTION = "torn transaction"
    PRECOMMITTED_READ = "precommitted read"
    PHANTOM = "phantom"
    INCONSISTENT_OFFSET = "inconsistent offset"
    NON_MONOTONIC_SEND = "non-monotonic send"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    POLL_SKIP = "poll skip"
    READ_CYCLE = "cycle of reads"
    MISSING_OUTPUT = "missing output"
    EXTRA_OUTPUT = "extra output"
    DUPLICATE_OUTPUT = "duplicate output"
    PROGRESS_AHEAD = "progress ahead of output"
    PROGRESS_BEHIND = "progress behind output"
    WRITE_CYCLE = "cycle of writes"
    WRITE_READ_CYCLE = "cycle of writes and reads"
    MISSED_READ_CYCLE = "cycle through a missed record"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


# Kafka promises no order between open transactions, and a poll may always miss what is new: told, not failed.
ALLOWED_BY_KAFKA: Final = frozenset(
    {Anomaly.WRITE_CYCLE, Anomaly.WRITE_READ_CYCLE, Anomaly.MISSED_READ_CYCLE}
)

_MEANINGS: Final = {
    Anomaly.LOST_WRITE: "acknowledged, or seen by a reader, and not in the log at the end",
    Anomaly.DUPLICATE: "sent once, and in the log more than once",
    Anomaly.ABORTED_READ: "a reader of committed records saw one that was aborted or refused",
    Anomaly.TORN_TRANSACTION: "one part of a transaction is in the log and another is not",
    Anomaly.PRECOMMITTED_READ: "a reader of committed records saw one before its commit was asked for",
    Anomaly.PHANTOM: "a value that nobody sent to this partition",
    Anomaly.INCONSISTENT_OFFSET: "one offset with two values, or one value with two offsets",
    Anomaly.NON_MONOTONIC_SEND: "records of one producer stand in another order than they were sent in",
    Anomaly.NON_MONOTONIC_POLL: "a consumer went back without a seek or a new assignment",
    Anomaly.POLL_SKIP: "a consumer went past committed records without a seek or a new assignment",
    Anomaly.READ_CYCLE: "transactions that each read what the next one wrote, in a circle",
    Anomaly.MISSING_OUTPUT: "an input below the committed offsets has no output, while later ones have",
    Anomaly.EXTRA_OUTPUT: "an output that no input explains",
    Anomaly.DUPLICATE_OUTPUT: "an output more often than its inputs explain",
    Anomaly.PROGRESS_AHEAD: "the last inputs below the committed offset have no output",
    Anomaly.PROGRESS_BEHIND: "an input at or above the committed offset has its output already",
    Anomaly.WRITE_CYCLE: "open transactions wrote between each other's records; Kafka allows it",
    Anomaly.WRITE_READ_CYCLE: "as a cycle of writes, with reads in it; Kafka allows it",
    Anomaly.MISSED_READ_CYCLE: "a transaction was read in one partition and not yet in another; Kafka allows it",
}


class Witness(NamedTuple):
    """A record as somebody told it, around an anomaly."""

    told_by: str  # "log", "send by p1 in its transaction 3 (committed)", "poll by c1"
    at: TopicPartition
    offset: int | None
    value: object
    time_ns: int | None = None

    def __str__(self) -> str:
        offset = "offset ?" if self.offset is None else f"offset {self.offset}"
        return f"{self.at} {offset}: {self.value} ({self.told_by})"


@dataclass(frozen=True, slots=True)
class Found:
    """One anomaly: a sentence with its facts, and the exact records around it."""

    anomaly: Anomaly
    text: str
    witnesses: tuple[Witness, ...] = ()
    time_ns: int | None = None


class Findings:
    """What a check has found so far, in bounded memory."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.counts: Counter[Anomaly] = Counter()
        self.kept: list[Found] = []
        self._kept_max = kept_max

    def add(
        self, anomaly: Anomaly, text: str, witnesses: Iterable[Witness] = (), time_ns: int | None = None
    ) -> None:
        self.counts[anomaly] += 1
        if self.counts[anomaly] <= self._kept_max:
            self.kept.append(Found(anomaly, text, tuple(witnesses), time_ns))
