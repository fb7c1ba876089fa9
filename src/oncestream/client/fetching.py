"""The Fetch request, for those who read records and those who only count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from oncestream.client.failures import raise_if_error
from oncestream.client.leaders import PartitionAnswer
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NO_SESSION: Final = -1
# Who may see offsets but no records, or is overtaken by retention, gets an answer without records.
_UNREADABLE: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OFFSET_OUT_OF_RANGE})


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


def fetch_answers(told: FetchResponse) -> Iterator[PartitionAnswer[PartitionData]]:
    """For `ask_leaders`."""
    raise_if_error(told.error_code, "fetch")
    for topic in told.responses:
        for data in topic.partitions:
            where = TopicPartition(topic.topic, data.partition_index)
            yield PartitionAnswer(where, 0 if data.error_code in _UNREADABLE else data.error_code, data)
