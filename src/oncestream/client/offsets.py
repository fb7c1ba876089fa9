"""Offsets of logs (first, last, by time) and those that groups have committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.failures import raise_if_error
from oncestream.client.leaders import PartitionAnswer, ask_leaders
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

T = TypeVar("T")

LATEST: Final = -1
EARLIEST: Final = -2

_CLIENT: Final = -1  # not a replica
_NONE: Final = -1  # an answer for "no such offset"


class Committed(NamedTuple):
    """An offset that a group has committed, and the text that was committed with it."""

    offset: int
    metadata: str = ""


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = True
) -> dict[TopicPartition, int | None]:
    """The offset at EARLIEST, LATEST, or of the first record at or after a time in ms (None: there is none).

    LATEST with `read_committed` is the last stable offset.
    """

    def build(part: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=each, timestamp=part[TopicPartition(topic, each)])
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(part).items()
        ]
        return ListOffsetsRequest(replica_id=_CLIENT, isolation_level=int(read_committed), topics=topics)

    def read(told: ListOffsetsResponse) -> Iterator[PartitionAnswer[int]]:
        for topic in told.topics:
            for each in topic.partitions:
                yield PartitionAnswer(
                    TopicPartition(topic.name, each.partition_index), each.error_code, each.offset
                )

    found = ask_leaders(cluster, wanted, build, ListOffsetsResponse, read)
    return {partition: None if found[partition] == _NONE else found[partition] for partition in wanted}


def committed_offsets(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = True,
) -> dict[TopicPartition, Committed]:
    """What the group has committed, of these partitions or of all.

    Waits for a transaction that holds offsets of partitions named here; one that commits the very first
    offset of a partition is not seen where all are asked for. Not `stable`: does not wait for it, and answers
    what was committed before.
    """
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    request = OffsetFetchRequest(groups=[asked], require_stable=stable)

    def check(told: OffsetFetchResponse) -> None:
        raise_if_error(told.groups[0].error_code, group)
        for topic in told.groups[0].topics:
            for each in topic.partitions:
                raise_if_error(each.error_code, group, f"{topic.name}-{each.partition_index}")

    told = cluster.ask_coordinator(CoordinatorKind.GROUP, group, request, OffsetFetchResponse, check)
    return {
        TopicPartition(topic.name, each.partition_index): Committed(
            each.committed_offset, each.metadata or ""
        )
        for topic in told.groups[0].topics
        for each in topic.partitions
        if each.committed_offset != _NONE
    }


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
    """Commits from outside the group, which must have no live members."""
    topics = offset_topics(offsets, OffsetCommitRequestTopic, OffsetCommitRequestPartition)
    request = OffsetCommitRequest(group_id=group, topics=topics)

    def check(told: OffsetCommitResponse) -> None:
        for topic in told.topics:
            for each in topic.partitions:
                raise_if_error(each.error_code, group, f"{topic.name}-{each.partition_index}")

    cluster.ask_coordinator(CoordinatorKind.GROUP, group, request, OffsetCommitResponse, check)


def offset_topics(
    offsets: Mapping[TopicPartition, Committed],
    topic_of: Callable[..., T],
    partition_of: Callable[..., object],
) -> list[T]:
    """Offsets as requests carry them; those inside and outside a transaction have structs of their own for it."""
    return [
        topic_of(
            name=topic,
            partitions=[
                partition_of(
                    partition_index=each,
                    committed_offset=offsets[TopicPartition(topic, each)].offset,
                    committed_metadata=offsets[TopicPartition(topic, each)].metadata,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]
