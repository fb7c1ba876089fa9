"""What requests make of a transaction: Kafka's tables, without I/O."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.end import complete, end, fence
from oncestream.broker.transactions.initialize import first_seen, initialize
from oncestream.broker.transactions.join import join, verify
from oncestream.broker.transactions.state import LEGAL, NO_PRODUCER_ID, State, TopicPartition, Transaction
from oncestream.wire.error_codes import ErrorCode, KafkaError

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
NOW = 1_000
OLD, NEW = 0, 2
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def transaction(state: State, epoch: int = 5, **changes: object) -> Transaction:
    partitions = frozenset({PARTITION}) if state is State.ONGOING or state.is_ending else frozenset()
    base = Transaction("x", 7, epoch, 60_000, state, 10, partitions=partitions, started_ms=10)
    return replace(base, **changes)  # type: ignore[arg-type]


def new_ids(first: int = 100) -> Callable[[], int]:
    return itertools.count(first).__next__


def ended(txn: Transaction, epoch: int, commit: bool, version: int) -> Transaction | ErrorCode:
    try:
        producer = Producer(7, epoch)
        return end(txn, producer, commit, NOW, client_version=version, new_producer_id=new_ids())
    except KafkaError as error:
        return error.code


def init(txn: Transaction, expected: Producer | None = None, version: int = NEW) -> Transaction | ErrorCode:
    try:
        return initialize(txn, 30_000, expected, NOW, server_version=version, new_producer_id=new_ids())
    except KafkaError as error:
        return error.code


# TransactionState.validPreviousStates of Apache Kafka.
IDLE = {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
PREVIOUS = {
    State.EMPTY: IDLE,
    State.ONGOING: {State.ONGOING, *IDLE},
    State.PREPARE_COMMIT: {State.ONGOING},
    State.PREPARE_ABORT: {State.ONGOING, State.PREPARE_EPOCH_FENCE, *IDLE},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
    State.DEAD: IDLE,
    State.PREPARE_EPOCH_FENCE: {State.ONGOING},
}


def test_every_state_comes_after_those_that_kafka_allows_and_no_others() -> None:
    assert {to: {state for state, nexts in LEGAL.items() if to in nexts} for to in State} == PREVIOUS


def test_states_are_called_as_kafka_calls_them() -> None:
    assert [state.label for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def test_an_illegal_step_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="EMPTY -> COMPLETE_COMMIT"):
        transaction(State.EMPTY).move_to(State.COMPLETE_COMMIT, NOW)


# -- EndTxn -----------------------------------------------------------------------------------

OLD_TABLE = [
    (State.ONGOING, True, State.PREPARE_COMMIT),
    (State.ONGOING, False, State.PREPARE_ABORT),
    (State.EMPTY, True, WRONG_STATE),
    (State.EMPTY, False, WRONG_STATE),
    (State.PREPARE_COMMIT, True, CONCURRENT),
    (State.PREPARE_COMMIT, False, WRONG_STATE),
    (State.PREPARE_ABORT, True, WRONG_STATE),
    (State.PREPARE_ABORT, False, CONCURRENT),
    (State.COMPLETE_COMMIT, True, State.COMPLETE_COMMIT),
    (State.COMPLETE_COMMIT, False, WRONG_STATE),
    (State.COMPLETE_ABORT, True, WRONG_STATE),
    (State.COMPLETE_ABORT, False, State.COMPLETE_ABORT),
]


@pytest.mark.parametrize(("state", "commit", "expected"), OLD_TABLE)
def test_the_end_in_transaction_version_1_keeps_the_epoch(
    state: State, commit: bool, expected: State | ErrorCode
) -> None:
    outcome = ended(transaction(state), 5, commit, OLD)
    if isinstance(outcome, Transaction):
        assert (outcome.state, outcome.epoch) == (expected, 5)
    else:
        assert outcome is expected


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("state", [s for s in State if s not in (State.DEAD, State.PREPARE_EPOCH_FENCE)])
def test_the_end_by_a_stranger_is_refused(state: State, version: int) -> None:
    if state.is_ending and version == NEW:
        assert ended(transaction(state, epoch=9), 5, True, version) is CONCURRENT
        return
    assert ended(transaction(state, epoch=9), 5, True, version) is FENCED
    assert ended(transaction(state, epoch=3), 5, True, version) is FENCED
    assert ended(replace(transaction(state), producer_id=8), 5, True, version) is MAPPING


# State, epoch of the request relative to the coordinator's, commit -> outcome; BUMPED: decided, with a new epoch.
BUMPED = "bumped"
NEW_TABLE = [
    (State.ONGOING, 0, True, BUMPED),
    (State.ONGOING, 0, False, BUMPED),
    (State.ONGOING, -1, True, FENCED),  # KAFKA-17754: sent for the transaction before, arrived late
    (State.ONGOING, -1, False, FENCED),
    (State.EMPTY, 0, True, WRONG_STATE),
    (State.EMPTY, 0, False, BUMPED),
    (State.EMPTY, -1, True, FENCED),
    (State.EMPTY, -1, False, FENCED),
    (State.PREPARE_COMMIT, -1, True, CONCURRENT),
    (State.PREPARE_COMMIT, -1, False, CONCURRENT),
    (State.PREPARE_COMMIT, 0, True, CONCURRENT),
    (State.PREPARE_ABORT, -1, False, CONCURRENT),
    (State.PREPARE_ABORT, -1, True, CONCURRENT),
    (State.PREPARE_ABORT, 0, False, CONCURRENT),
    (State.COMPLETE_ABORT, -1, False, State.COMPLETE_ABORT),
    (State.COMPLETE_ABORT, 0, False, BUMPED),
    (State.COMPLETE_ABORT, -1, True, FENCED),  # KAFKA-20785: the coordinator aborted it, after its timeout
    (State.COMPLETE_ABORT, 0, True, WRONG_STATE),
    (State.COMPLETE_COMMIT, -1, False, WRONG_STATE),
    (State.COMPLETE_COMMIT, 0, False, BUMPED),
    (State.COMPLETE_COMMIT, -1, True, State.COMPLETE_COMMIT),
    (State.COMPLETE_COMMIT, 0, True, WRONG_STATE),
]


@pytest.mark.parametrize(("state", "relative", "commit", "expected"), NEW_TABLE)
def test_the_end_in_transaction_version_2_moves_the_epoch_on(
    state: State, relative: int, commit: bool, expected: State | ErrorCode | str
) -> None:
    txn = transaction(state)
    outcome = ended(txn, 5 + relative, commit, NEW)
    if expected == BUMPED:
        assert isinstance(outcome, Transaction)
        assert outcome.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
        assert (outcome.epoch, outcome.last_epoch) == (6, 5)
        assert outcome.started_ms == (10 if state is State.ONGOING else NOW)
    elif isinstance(expected, State):
        assert outcome is txn
    else:
        assert outcome is expected


def test_the_last_epoch_hands_over_to_a_new_producer_id_when_the_transaction_is_complete() -> None:
    decided = ended(transaction(State.ONGOING, epoch=32766), 32766, True, NEW)
    assert isinstance(decided, Transaction)
    assert (decided.producer, decided.next_producer_id) == (Producer(7, 32767), 100)
    done = complete(decided, NOW)
    assert (done.producer, done.next_producer_id) == (Producer(100, 0), NO_PRODUCER_ID)
    retry = ended(done, 32766, True, NEW)
    assert retry is done


# -- InitProducerId ---------------------------------------------------------------------------


def test_a_new_id_starts_at_epoch_0() -> None:
    made = first_seen("x", 7, 60_000, NOW)
    assert (made.state, made.producer, made.partitions) == (State.EMPTY, Producer(7, 0), frozenset())


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_initialising_an_idle_id_moves_its_epoch_on(state: State) -> None:
    made = init(transaction(state))
    assert isinstance(made, Transaction)
    assert (made.state, made.producer, made.last_epoch) == (State.EMPTY, Producer(7, 6), -1)
    assert (made.timeout_ms, made.started_ms) == (30_000, -1)


def test_a_producer_that_goes_on_gets_the_next_epoch_and_its_retry_the_same() -> None:
    made = init(transaction(State.COMPLETE_ABORT), Producer(7, 5))
    assert isinstance(made, Transaction)
    assert (made.producer, made.last_epoch) == (Producer(7, 6), 5)
    again = init(made, Producer(7, 5))
    assert isinstance(again, Transaction)
    assert again.producer == Producer(7, 6)


def test_a_producer_that_goes_on_after_somebody_newer_came_is_fenced() -> None:
    newer = init(transaction(State.EMPTY))
    assert isinstance(newer, Transaction)
    assert init(newer, Producer(7, 5)) is FENCED
    assert init(newer, Producer(6, 5)) is FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_initialising_waits_for_what_is_ending(state: State) -> None:
    assert init(transaction(state)) is CONCURRENT


def test_initialising_aborts_what_is_open_and_the_one_who_asked_with_its_epoch_may_go_on() -> None:
    made = init(transaction(State.ONGOING), Producer(7, 5))
    assert isinstance(made, Transaction)
    assert (made.state, made.epoch, made.partitions) == (State.PREPARE_ABORT, 6, frozenset({PARTITION}))
    again = init(complete(made, NOW), Producer(7, 5))
    assert isinstance(again, Transaction)
    assert again.producer == Producer(7, 6)


def test_with_transaction_version_1_the_fence_forgets_the_epoch_before() -> None:
    made = init(transaction(State.ONGOING), None, OLD)
    assert isinstance(made, Transaction)
    assert (made.state, made.epoch, made.last_epoch) == (State.PREPARE_ABORT, 6, -1)


def test_an_exhausted_id_gets_a_new_producer_id_and_the_retry_the_same() -> None:
    txn = transaction(State.COMPLETE_COMMIT, epoch=32766)
    made = init(txn, Producer(7, 32766))
    assert isinstance(made, Transaction)
    assert made.producer == Producer(100, 0)
    again = init(made, Producer(7, 32766))
    assert isinstance(again, Transaction)
    assert again.producer == Producer(100, 0)


def test_a_fence_in_the_last_epoch_never_overflows() -> None:
    for epoch in (32766, 32767):
        made = fence(
            transaction(State.ONGOING, epoch=epoch), NOW, server_version=NEW, new_producer_id=new_ids()
        )
        assert made.epoch == 32767
        assert complete(made, NOW).producer == Producer(100, 0)
    old = fence(transaction(State.ONGOING, epoch=32766), NOW, server_version=OLD, new_producer_id=new_ids())
    assert complete(old, NOW).producer == Producer(7, 32767)
    rotated = init(complete(old, NOW))
    assert isinstance(rotated, Transaction)
    assert rotated.producer == Producer(100, 0)


# -- partitions -------------------------------------------------------------------------------


def test_the_first_partition_opens_the_transaction_and_more_join_it() -> None:
    first = join(transaction(State.COMPLETE_COMMIT), Producer(7, 5), frozenset({PARTITION}), NEW, NOW)
    assert (first.state, first.started_ms, first.partitions) == (State.ONGOING, NOW, frozenset({PARTITION}))
    more = join(first, Producer(7, 5), frozenset({OTHER}), NEW, NOW + 1)
    assert (more.started_ms, more.partitions) == (NOW, frozenset({PARTITION, OTHER}))
    assert join(more, Producer(7, 5), frozenset({OTHER}), NEW, NOW + 2) is more
    assert verify(more, Producer(7, 5)) == {PARTITION, OTHER}


@pytest.mark.parametrize(
    ("state", "producer", "code"),
    [
        (State.ONGOING, Producer(8, 5), MAPPING),
        (State.ONGOING, Producer(7, 4), FENCED),
        (State.ONGOING, Producer(7, 6), FENCED),
        (State.PREPARE_COMMIT, Producer(7, 5), CONCURRENT),
        (State.PREPARE_ABORT, Producer(7, 5), CONCURRENT),
        (State.PREPARE_COMMIT, Producer(8, 0), CONCURRENT),
    ],
)
def test_nobody_but_the_current_producer_joins_or_writes(
    state: State, producer: Producer, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        join(transaction(state), producer, frozenset({OTHER}), NEW, NOW)
    assert refused.value.code is code
    with pytest.raises(KafkaError) as refused:
        verify(transaction(state), producer)
    assert refused.value.code is code
