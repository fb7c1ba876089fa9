"""Transactions from outside: which there are, which of them hang, and ending one by force."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.failures import raise_if_error
from oncestream.client.leaders import PartitionAnswer, ask_leaders
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.errors import UnknownTransaction, UnknownTransactionState
from oncestream.wire.messages import describe_producers as producers_message
from oncestream.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncestream.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# The longest that Apache Kafka lets a transaction take, unless it is configured otherwise.
HANGING_AFTER_MS: Final = 15 * 60 * 1000
PARTITIONS_PER_REQUEST: Final = 500


class TransactionPhase(StrEnum):
    """The states of a transaction, as Kafka names them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


OPEN: Final = (
    TransactionPhase.ONGOING,
    TransactionPhase.PREPARE_COMMIT,
    TransactionPhase.PREPARE_ABORT,
    TransactionPhase.PREPARE_EPOCH_FENCE,
)


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionState(NamedTuple):
    """What its coordinator knows. `start_ms` is None where no transaction has been begun."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """What a partition knows of one that wrote to it. `txn_start_offset` is None where no transaction is open."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int | None


class Hanging(NamedTuple):
    """An open transaction in a partition that no coordinator will end."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None


def list_transactions(
    cluster: Cluster, states: Iterable[str] = (), older_than_ms: int | None = None
) -> list[TransactionListing]:
    """Every transactional id of the cluster, or those in these states; only open ones where an age is given."""
    wanted = list(states) or (list(OPEN) if older_than_ms is not None else [])
    answers = cluster.ask_every_broker(
        ListTransactionsRequest(state_filters=[str(state) for state in wanted]),
        ListTransactionsResponse,
        lambda told: raise_if_error(told.error_code, "transactions"),
    )
    unknown = {state for told in answers for state in told.unknown_state_filters} - set(TransactionPhase)
    if unknown:
        raise UnknownTransactionState(
            states=", ".join(sorted(unknown)), known=", ".join(sorted(TransactionPhase))
        )
    found = sorted(
        TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
        for told in answers
        for each in told.transaction_states
    )
    if older_than_ms is None:
        return found
    # Not by the request's own filter, which brokers have only from 3.8 on.
    begun_before_ms = time.time() * 1000 - older_than_ms
    known = known_transactions(cluster, (each.transactional_id for each in found))
    return [
        each
        for each in found
        if (state := known.get(each.transactional_id)) is not None
        and state.start_ms is not None
        and state.start_ms < begun_before_ms
    ]


def describe_transactions(cluster: Cluster, ids: Iterable[str]) -> list[TransactionState]:
    """What the coordinators know of these transactional ids; UnknownTransaction where one knows nothing."""
    return [_describe(cluster, transactional_id) for transactional_id in ids]


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """Who has written to each partition, idempotently or in transactions, as its leader remembers."""

    def build(part: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(part).items()
            ]
        )

    def read(told: DescribeProducersResponse) -> Iterator[PartitionAnswer[list[ProducerState]]]:
        for topic in told.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                yield PartitionAnswer(where, each.error_code, _producers(each))

    wanted = list(partitions)
    found: dict[TopicPartition, list[ProducerState]] = {}
    for start in range(0, len(wanted), PARTITIONS_PER_REQUEST):
        part = dict.fromkeys(wanted[start : start + PARTITIONS_PER_REQUEST])
        found |= ask_leaders(cluster, part, build, DescribeProducersResponse, read)
    return found


def hanging_transactions(
    cluster: Cluster, older_than_ms: int = HANGING_AFTER_MS, topics: Iterable[str] | None = None
) -> list[Hanging]:
    """Open transactions in these topics, or in all, that were last written to so long ago and have no coordinator.

    The age must be above the longest transaction timeout of the cluster: younger ones may yet be registered.
    """
    written_before_ms = time.time() * 1000 - older_than_ms
    candidates = [
        (partition, producer)
        for partition, producers in describe_producers(cluster, partitions_of(cluster, topics)).items()
        for producer in producers
        if producer.txn_start_offset is not None and producer.last_timestamp_ms < written_before_ms
    ]
    if not candidates:
        return []
    names = {each.producer_id: each.transactional_id for each in list_transactions(cluster)}
    writers = {names[producer.producer_id] for _, producer in candidates if producer.producer_id in names}
    known = known_transactions(cluster, writers)
    hanging = []
    for partition, producer in candidates:
        name = names.get(producer.producer_id)
        state = known.get(name) if name is not None else None
        # One that its coordinator counts to the transaction will get its marker from there.
        if state is None or partition not in state.partitions:
            hanging.append(
                Hanging(
                    partition,
                    producer.producer_id,
                    producer.epoch,
                    producer.coordinator_epoch,
                    producer.txn_start_offset or 0,
                    producer.last_timestamp_ms,
                    name,
                )
            )
    return sorted(hanging, key=lambda each: each[:2])


def abort_transaction(
    cluster: Cluster, partition: TopicPartition, producer_id: int, epoch: int, coordinator_epoch: int
) -> None:
    """Writes an abort marker into one partition past the coordinator: for a transaction that hangs, and no other.

    UnknownTransaction where that producer has nothing open there.
    """
    producers = describe_producers(cluster, [partition])[partition]
    if not any(each.producer_id == producer_id and each.txn_start_offset is not None for each in producers):
        raise UnknownTransaction(transactional_id=f"producer {producer_id} in {partition}")
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        # -1 stands for one that no coordinator has ended anything for; 0 is not above that of any coordinator.
        coordinator_epoch=max(0, coordinator_epoch),
    )

    def read(told: WriteTxnMarkersResponse) -> Iterator[PartitionAnswer[None]]:
        for result in told.markers:
            for topic in result.topics:
                for each in topic.partitions:
                    where = TopicPartition(topic.name, each.partition_index)
                    yield PartitionAnswer(where, each.error_code, None)

    ask_leaders(
        cluster,
        {partition: None},
        lambda _: WriteTxnMarkersRequest(markers=[marker]),
        WriteTxnMarkersResponse,
        read,
    )


def partitions_of(cluster: Cluster, topics: Iterable[str] | None) -> list[TopicPartition]:
    """Every partition of these topics, or of all, internal ones too."""
    return sorted(
        TopicPartition(str(topic.name), each.partition_index)
        for topic in cluster.metadata(topics)
        for each in topic.partitions
    )


def known_transactions(cluster: Cluster, ids: Iterable[str]) -> dict[str, TransactionState]:
    """As `describe_transactions`, without those that their coordinators have forgotten."""
    known = {}
    for transactional_id in ids:
        try:
            known[transactional_id] = _describe(cluster, transactional_id)
        except UnknownTransaction:
            continue
    return known


def _describe(cluster: Cluster, transactional_id: str) -> TransactionState:
    def check(told: DescribeTransactionsResponse) -> None:
        raise_if_error(told.transaction_states[0].error_code, transactional_id)

    told = cluster.ask_coordinator(
        CoordinatorKind.TRANSACTION,
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        check,
    ).transaction_states[0]
    return TransactionState(
        transactional_id,
        told.producer_id,
        told.producer_epoch,
        told.transaction_state,
        told.transaction_timeout_ms,
        told.transaction_start_time_ms if told.transaction_start_time_ms >= 0 else None,
        tuple(
            sorted(TopicPartition(each.topic, number) for each in told.topics for number in each.partitions)
        ),
    )


def _producers(told: producers_message.PartitionResponse) -> list[ProducerState]:
    return [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in sorted(told.active_producers, key=lambda producer: producer.producer_id)
    ]
