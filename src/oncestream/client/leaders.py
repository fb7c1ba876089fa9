"""Requests that go to the leaders of partitions, one per broker, until every partition has answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from oncestream.client.cluster import Cluster
from oncestream.client.failures import ConnectionLost, ErrorAnswer, has_moved, may_pass
from oncestream.client.retry import until_done
from oncestream.client.topic_partition import TopicPartition
from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message

M = TypeVar("M", bound=Message)
W = TypeVar("W")
R = TypeVar("R")


class PartitionAnswer(NamedTuple, Generic[R]):
    partition: TopicPartition
    code: int
    result: R


def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, W],
    build: Callable[[Mapping[TopicPartition, W]], Message],
    answer: type[M],
    read: Callable[[M], Iterable[PartitionAnswer[R]]],
) -> dict[TopicPartition, R]:
    """What `read` finds for each partition in the answers to the requests that `build` makes."""
    done: dict[TopicPartition, R] = {}

    def attempt() -> dict[TopicPartition, R]:
        left = {partition: want for partition, want in wanted.items() if partition not in done}
        failure: ErrorAnswer | ConnectionLost | None = None
        for node, part in by_leader(cluster, left).items():
            try:
                with cluster.connection_to(node) as connection:
                    told = connection.ask(build(part), answer)
            except ConnectionLost as error:
                cluster.forget_leaders(each.topic for each in part)
                failure = error
                continue
            for partition, code, result in read(told):
                if not code:
                    done[partition] = result
                    continue
                failure = ErrorAnswer(code, partition)
                if has_moved(failure):
                    cluster.forget_leaders([partition.topic])
                if not may_pass(failure):
                    raise failure
        if failure is not None:
            raise failure
        return done

    return until_done(attempt, cluster.retry(), ApiKey(answer.__api_key__).name)


def by_leader(cluster: Cluster, wanted: Mapping[TopicPartition, W]) -> dict[int, dict[TopicPartition, W]]:
    """The same entries, grouped by the node that leads their partitions."""
    nodes: dict[int, dict[TopicPartition, W]] = {}
    for partition, want in wanted.items():
        nodes.setdefault(cluster.leader_of(partition).node, {})[partition] = want
    return nodes
