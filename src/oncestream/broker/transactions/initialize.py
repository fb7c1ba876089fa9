"""What InitProducerId makes of a transactional id. Pure."""

from __future__ import annotations

from collections.abc import Callable

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.end import fence
from oncestream.broker.transactions.state import (
    EPOCH_EXHAUSTED,
    NEVER_MS,
    NO_EPOCH,
    State,
    Transaction,
)
from oncestream.wire.error_codes import ErrorCode, KafkaError


def initialize(
    txn: Transaction,
    timeout_ms: int,
    expected: Producer | None,
    now_ms: int,
    *,
    server_version: int,
    new_producer_id: Callable[[], int],
) -> Transaction:
    """The id with a new epoch and nothing open; or, first of all, the abort of what it has open.

    `expected` is what a producer that goes on after an error has (KIP-360): anybody newer fences it.
    """
    if txn.state.is_ending:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _is_known(txn, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if txn.state is State.ONGOING:
        return fence(txn, now_ms, server_version=server_version, new_producer_id=new_producer_id)
    if txn.is_exhausted and (expected is None or expected.epoch == txn.epoch):
        last_epoch = NO_EPOCH if expected is None else txn.epoch
        producer = Producer(new_producer_id(), 0)
    else:
        producer, last_epoch = _bump(txn, expected)
    return txn.move_to(
        State.EMPTY,
        now_ms,
        producer_id=producer.id,
        epoch=producer.epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=NEVER_MS,
    )


def first_seen(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(transactional_id, producer_id, 0, timeout_ms, State.EMPTY, now_ms)


def _is_known(txn: Transaction, expected: Producer) -> bool:
    if expected.id == txn.producer_id:
        return True
    # It ran out of epochs, and missed the answer that gave it a new producer id.
    return expected.id == txn.previous_producer_id and expected.epoch >= EPOCH_EXHAUSTED


def _bump(txn: Transaction, expected: Producer | None) -> tuple[Producer, int]:
    if expected is None:
        return Producer(txn.producer_id, txn.epoch + 1), NO_EPOCH
    if expected == txn.producer:
        return Producer(txn.producer_id, txn.epoch + 1), txn.epoch
    if expected.epoch == txn.last_epoch:
        return txn.producer, txn.last_epoch  # the same request once more: its answer was lost
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
