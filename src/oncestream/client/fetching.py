"""The Fetch request, for those who read records and those who only count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NO_SESSION: Final = -1


def fetch_request(
    positions: Mapping[TopicPartition, int],
    *,
    partition_bytes_max: int,
    bytes_max: int,
    bytes_min: int,
    wait_ms_max: int,
    read_committed: bool,
) -> FetchRequest:
    """From these offsets on; each partition and the whole answer limited in size."""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=each,
                    fetch_offset=positions[TopicPartition(topic, each)],
                    partition_max_bytes=partition_bytes_max,
                )
                for each in partitions
            ],
        )
        for topic, partitions in by_topic(positions).items()
    ]
    return FetchRequest(
        max_wait_ms=wait_ms_max,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=int(read_committed),
        session_epoch=NO_SESSION,
        topics=topics,
    )
