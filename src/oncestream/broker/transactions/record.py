"""A transactional id as a record of __transaction_state, in Kafka's format.

One field is ours: the epoch before the current one, under a tag of its own that Kafka's tools skip. Kafka keeps it
in memory only, so there a client that repeats InitProducerId across a restart is fenced; here it is not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from oncestream.broker.state_log import StateRecord
from oncestream.broker.transactions.state import State, TopicPartition, Transaction
from oncestream.wire.codec import decode_versioned, encode_versioned
from oncestream.wire.embedded.coordinator_keys import decode_transaction_key, encode_key
from oncestream.wire.embedded.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_VALUE_VERSION: Final = 1


def encode_transaction(txn: Transaction) -> StateRecord:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(txn.partitions):
        topics[topic].append(partition)
    partitions = [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in topics.items()]
    value = TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.previous_producer_id,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.epoch,
        last_producer_epoch=txn.last_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state,
        transaction_partitions=None if txn.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=txn.updated_ms,
        transaction_start_timestamp_ms=txn.started_ms,
        client_transaction_version=txn.version,
    )
    return StateRecord(_key(txn.id), encode_versioned(value, _VALUE_VERSION))


def tombstone(transactional_id: str) -> StateRecord:
    return StateRecord(_key(transactional_id), None)


def decode_id(record: StateRecord) -> str | None:
    """Whose record it is; None for a kind we do not keep."""
    key = decode_transaction_key(record.key)
    return None if key is None else key.transactional_id


def decode_transaction(transactional_id: str, value: bytes) -> Transaction:
    stored = decode_versioned(TransactionLogValue, value)
    return Transaction(
        id=transactional_id,
        producer_id=stored.producer_id,
        epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=State(stored.transaction_status),
        updated_ms=stored.transaction_last_update_timestamp_ms,
        started_ms=stored.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in stored.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        last_epoch=stored.last_producer_epoch,
        version=stored.client_transaction_version,
    )


def _key(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id))
