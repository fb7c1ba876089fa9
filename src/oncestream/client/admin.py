"""Topics: making, removing, looking at them; and removing old records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from oncestream.client.cluster import Cluster
from oncestream.client.failures import ErrorAnswer, raise_if_error
from oncestream.client.leaders import PartitionAnswer, ask_leaders
from oncestream.client.retry import until_done
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncestream.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncestream.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.schema import Message

M = TypeVar("M", bound=Message)

BROKER_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make; what is not said is left to the broker."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class PartitionState(NamedTuple):
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicState(NamedTuple):
    name: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]


def create_topics(
    cluster: Cluster, topics: Iterable[NewTopic], *, exist_ok: bool = False, validate_only: bool = False
) -> None:
    """Makes topics and waits until each of their partitions has a leader; or only says whether it would work."""
    wanted = {topic.name: topic for topic in topics}
    if not wanted:
        return
    left = dict(wanted)

    def attempt() -> None:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in left.values()],
            timeout_ms=cluster.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        failure: ErrorAnswer | None = None
        for each in _ask_controller(cluster, request, CreateTopicsResponse).topics:
            if not each.error_code or (exist_ok and each.error_code == ErrorCode.TOPIC_ALREADY_EXISTS):
                left.pop(each.name, None)
            else:
                failure = ErrorAnswer(each.error_code, each.name, each.error_message)
        if failure is not None:
            raise failure

    until_done(attempt, cluster.retry(), ApiKey.CREATE_TOPICS.name)
    if not validate_only:
        _wait_for_leaders(cluster, dict.fromkeys(wanted, 1))


def grow_partitions(cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
    """Gives topics more partitions, up to these totals, and waits until each has a leader."""
    if not totals:
        return
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in totals.items()
        ],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )

    def check(told: CreatePartitionsResponse) -> None:
        for each in told.results:
            raise_if_error(each.error_code, each.name, each.error_message)

    cluster.ask_controller(request, CreatePartitionsResponse, check)
    if not validate_only:
        _wait_for_leaders(cluster, totals)


def delete_topics(cluster: Cluster, names: Iterable[str], *, missing_ok: bool = False) -> None:
    left = dict.fromkeys(names)

    def attempt() -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in left],
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        failure: ErrorAnswer | None = None
        for each in _ask_controller(cluster, request, DeleteTopicsResponse).responses:
            missing = each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not each.error_code or (missing and missing_ok):
                left.pop(str(each.name), None)
            else:
                failure = ErrorAnswer(each.error_code, each.name, each.error_message)
        if failure is not None:
            raise failure

    gone = list(left)
    if gone:
        until_done(attempt, cluster.retry(), ApiKey.DELETE_TOPICS.name)
        cluster.forget_leaders(gone)


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> list[TopicState]:
    """Of these topics, or of all, sorted by name."""
    found = [
        TopicState(
            str(topic.name),
            topic.is_internal,
            tuple(
                PartitionState(
                    each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes)
                )
                for each in sorted(topic.partitions, key=lambda each: each.partition_index)
            ),
        )
        for topic in cluster.metadata(names)
    ]
    return sorted(found)


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Removes records below the given offsets (-1: all); answers where each log starts now."""

    def build(part: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=each, offset=part[TopicPartition(topic, each)])
                    for each in partitions
                ],
            )
            for topic, partitions in by_topic(part).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=cluster.settings.request_timeout_ms)

    def read(told: DeleteRecordsResponse) -> Iterator[PartitionAnswer[int]]:
        for topic in told.topics:
            for each in topic.partitions:
                yield PartitionAnswer(
                    TopicPartition(topic.name, each.partition_index), each.error_code, each.low_watermark
                )

    return ask_leaders(cluster, before, build, DeleteRecordsResponse, read)


def _ask_controller(cluster: Cluster, request: Message, answer: type[M]) -> M:
    with cluster.connection_to(cluster.controller) as connection:
        return connection.ask(request, answer)


def _wait_for_leaders(cluster: Cluster, least: Mapping[str, int]) -> None:
    def attempt() -> None:
        for topic in cluster.metadata(least):
            led = [each for each in topic.partitions if each.leader_id >= 0]
            if len(led) < max(len(topic.partitions), least[str(topic.name)]):
                raise ErrorAnswer(ErrorCode.LEADER_NOT_AVAILABLE, topic.name)

    until_done(attempt, cluster.retry(), ApiKey.METADATA.name)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
