"""How a transaction ends: by its producer's wish, by a fence, and, when the markers are written, for good. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.state import (
    EPOCH_EXHAUSTED,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    VERSION_EPOCH_BUMP,
    VERSION_OLD,
    State,
    Transaction,
)
from oncestream.wire.error_codes import ErrorCode, KafkaError

_DECIDED: Final = {True: State.PREPARE_COMMIT, False: State.PREPARE_ABORT}
_DONE: Final = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}


def end(
    txn: Transaction,
    producer: Producer,
    commit: bool,
    now_ms: int,
    *,
    client_version: int,
    new_producer_id: Callable[[], int],
) -> Transaction:
    """The transaction with its end decided; the same one where this very end has been reached."""
    if client_version < VERSION_EPOCH_BUMP:
        return _end_old(txn, producer, commit, now_ms)
    if txn.state.is_ending:  # first of all: a producer that goes on may have been told another id already
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry = _is_retry(txn, producer)
    if not is_retry and txn.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_retry and commit and txn.state is State.COMPLETE_ABORT:  # it timed out, or was fenced
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_retry and txn.state not in (State.EMPTY, State.ONGOING):
        return _repeated(txn, commit)
    if txn.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if commit and txn.state is not State.ONGOING:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    started_ms = txn.started_ms if txn.state is State.ONGOING else now_ms
    return _decide(txn, commit, now_ms, started_ms, new_producer_id)


def fence(
    txn: Transaction, now_ms: int, *, server_version: int, new_producer_id: Callable[[], int]
) -> Transaction:
    """Aborts an ongoing transaction with a new epoch, so that whoever wrote in it can do so no longer."""
    assert txn.state is State.ONGOING
    if server_version >= VERSION_EPOCH_BUMP:
        return _decide(txn, False, now_ms, txn.started_ms, new_producer_id)
    epoch = min(txn.epoch + 1, EPOCH_MAX)
    return txn.move_to(State.PREPARE_ABORT, now_ms, epoch=epoch, last_epoch=NO_EPOCH, version=VERSION_OLD)


def complete(txn: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    state = _DONE[txn.state is State.PREPARE_COMMIT]
    if txn.next_producer_id == NO_PRODUCER_ID:
        return txn.move_to(state, now_ms, partitions=frozenset())
    return txn.move_to(
        state,
        now_ms,
        partitions=frozenset(),
        producer_id=txn.next_producer_id,
        epoch=0,
        next_producer_id=NO_PRODUCER_ID,
    )


def _end_old(txn: Transaction, producer: Producer, commit: bool, now_ms: int) -> Transaction:
    """Before transaction version 2 a retry cannot be told from the next request: the state has to match."""
    if txn.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if txn.state is State.ONGOING:
        return txn.move_to(_DECIDED[commit], now_ms, version=VERSION_OLD)
    if txn.state is State.EMPTY:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return _repeated(txn, commit)


def _repeated(txn: Transaction, commit: bool) -> Transaction:
    """The end was decided before: it must have been this one."""
    if txn.state is _DONE[commit]:
        return txn
    if txn.state is _DECIDED[commit]:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _is_retry(txn: Transaction, producer: Producer) -> bool:
    if txn.producer_id == producer.id and txn.epoch == producer.epoch + 1:
        return True
    return (
        txn.previous_producer_id == producer.id
        and txn.producer_id != producer.id
        and producer.epoch == EPOCH_EXHAUSTED
        and txn.epoch == 0
    )


def _decide(
    txn: Transaction, commit: bool, now_ms: int, started_ms: int, new_producer_id: Callable[[], int]
) -> Transaction:
    """The epoch moves on with the decision; the markers carry the new one."""
    return txn.move_to(
        _DECIDED[commit],
        now_ms,
        epoch=min(txn.epoch + 1, EPOCH_MAX),
        last_epoch=txn.epoch,
        next_producer_id=new_producer_id() if txn.is_exhausted else NO_PRODUCER_ID,
        started_ms=started_ms,
        version=VERSION_EPOCH_BUMP,
    )
