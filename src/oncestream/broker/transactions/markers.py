"""Writes the markers that end a transaction in its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from oncestream.broker.topic_names import OFFSETS_TOPIC
from oncestream.broker.transactions.state import TopicPartition
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node
    from oncestream.broker.state_log import Producer

COORDINATOR_EPOCH: Final = 0  # there is one coordinator, and it is never replaced
_NOTHING_TO_END: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # deleted
        ErrorCode.INVALID_PRODUCER_EPOCH,  # somebody newer has ended it
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)

Failures = dict[TopicPartition, KafkaError]


class Marker(NamedTuple):
    """How whose transaction ends."""

    producer: Producer
    commit: bool
    coordinator_epoch: int = COORDINATOR_EPOCH


def write_everywhere(
    node: Node,
    marker: Marker,
    partitions: Iterable[TopicPartition],
    then: Callable[[Failures], None],
) -> None:
    """Ends the transaction in all its partitions; calls back when that is durable, with those where it failed."""
    open_partitions = set(partitions)
    failures: Failures = {}

    def settle(where: TopicPartition, error: KafkaError | None) -> None:
        open_partitions.discard(where)
        if error is not None and error.code not in _NOTHING_TO_END:
            failures[where] = error
        if not open_partitions:
            then(failures)

    if not open_partitions:
        then(failures)
    for where in sorted(open_partitions):
        write(node, marker, where, lambda error, where=where: settle(where, error))  # type: ignore[misc]


def write(
    node: Node, marker: Marker, where: TopicPartition, then: Callable[[KafkaError | None], None]
) -> None:
    """Ends the transaction in one partition; calls back when the marker is durable."""
    partition = node.partition(*where)
    if partition is None:
        then(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    producer = marker.producer
    try:
        appended = partition.log.append_marker(
            producer.id, producer.epoch, marker.coordinator_epoch, marker.commit
        )
    except KafkaError as error:
        then(error)
        return
    if where.topic == OFFSETS_TOPIC:
        node.groups.end_transaction(where.partition, producer.id, marker.commit)
    partition.appended()
    partition.when_synced(appended.last_offset + 1, then)
