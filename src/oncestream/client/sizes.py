"""How many bytes partitions take on disk."""

from __future__ import annotations

from collections.abc import Iterable

from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.errors import NotAuthorized
from oncestream.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


def partition_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """Of the largest copy of each; None where the user may not see it (Kafka asks for DESCRIBE on the cluster)."""
    request = DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    )

    def check(told: DescribeLogDirsResponse) -> None:
        raise_if_error(told.error_code, "the cluster")

    try:
        answers = cluster.ask_every_broker(request, DescribeLogDirsResponse, check)
    except NotAuthorized:
        return None
    sizes: dict[TopicPartition, int] = {}
    for told in answers:
        for folder in told.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    at = TopicPartition(topic.name, each.partition_index)
                    sizes[at] = max(sizes.get(at, 0), each.partition_size)
    return sizes
