"""What a transactional id is doing, and what it may do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from oncestream.broker.state_log import Producer

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 32767
EPOCH_EXHAUSTED: Final = EPOCH_MAX - 1  # the last one stays free, so that its owner can always be fenced
NEVER_MS: Final = -1

# Kafka's feature transaction.version: from 2 on (KIP-890) partitions join by themselves and every end of a
# transaction moves the epoch on, so that nothing sent late can touch the next one.
VERSION_OLD: Final = 0
VERSION_EPOCH_BUMP: Final = 2


class State(IntEnum):
    """The numbers are those of the log."""

    EMPTY = 0  # initialised, nothing was written yet
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided; markers are being written
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # every partition has its marker
    COMPLETE_ABORT = 5
    DEAD = 6  # forgotten: its record is deleted
    PREPARE_EPOCH_FENCE = 7  # never stored: here fencing and the decision to abort are one step

    @property
    def label(self) -> str:
        """As clients are told it: PrepareCommit."""
        return _LABELS[self]

    @property
    def is_ending(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


_LABELS: Final = {state: state.name.title().replace("_", "") for state in State}

LEGAL: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.ONGOING: frozenset(
        {State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}
    ),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.DEAD: frozenset(),
}


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id and its current, or last, transaction: what one record of the log says."""

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State
    updated_ms: int
    started_ms: int = NEVER_MS
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # takes over when this one, out of epochs, has ended
    last_epoch: int = NO_EPOCH  # which a client may still have that missed the answer with the newer one
    version: int = VERSION_OLD

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= EPOCH_EXHAUSTED

    @property
    def due_ms(self) -> int:
        """When an ongoing transaction is given up."""
        return self.started_ms + self.timeout_ms

    def move_to(self, state: State, now_ms: int, **changes: Any) -> Transaction:
        assert state in LEGAL[self.state], f"transactional id {self.id}: {self.state.name} -> {state.name}"
        return replace(self, state=state, updated_ms=now_ms, previous_producer_id=self.producer_id, **changes)
