"""Partitions that become part of a transaction, and the question whether they are. Pure."""

from __future__ import annotations

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.state import State, TopicPartition, Transaction
from oncestream.wire.error_codes import ErrorCode, KafkaError


def join(
    txn: Transaction,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Transaction:
    """The transaction with these partitions in it; the same one where they were."""
    _check_producer(txn, producer)
    if txn.state is State.ONGOING:
        if partitions <= txn.partitions:
            return txn
        return txn.move_to(
            State.ONGOING, now_ms, partitions=txn.partitions | partitions, version=client_version
        )
    return txn.move_to(
        State.ONGOING, now_ms, partitions=partitions, started_ms=now_ms, version=client_version
    )


def verify(txn: Transaction, producer: Producer) -> frozenset[TopicPartition]:
    """The partitions this producer may write to."""
    _check_producer(txn, producer)
    return txn.partitions


def _check_producer(txn: Transaction, producer: Producer) -> None:
    if txn.state.is_ending:  # first of all: a producer that goes on may have been told another id already
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.producer_id != producer.id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
