"""Where a consumer begins to read partitions it is given: looked up before librdkafka is told to read them.

What librdkafka (2.16) looks up by itself it goes to once more, half a second later, if a seek or a rebalance came
before the answer: wherever the consumer was sought to, or has read to, by then. Records are read twice, or passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

from oncestream.client.topic_partition import TopicPartition

TIMEOUT_S: Final = 5.0


def with_starts(client: Any, partitions: Sequence[Any], *, latest: bool) -> list[Any]:
    """The partitions, each with the offset it has, or was committed, or with the first or the next one there is.

    Where that cannot be found out they stay without, and librdkafka is left to find it.
    """
    unknown = [each for each in partitions if each.offset < 0]
    if not unknown:
        return list(partitions)
    try:
        found = _good(client.committed(unknown, TIMEOUT_S))
        new = [each for each in found.values() if each.offset < 0]
        for each in new:
            each.offset = OFFSET_END if latest else OFFSET_BEGINNING  # the protocol knows them as times, too
        found |= _good(client.offsets_for_times(new, TIMEOUT_S) if new else [])
    except KafkaException:
        return list(partitions)
    return [each if each.offset >= 0 else found.get(_place(each), each) for each in partitions]


def _good(partitions: Sequence[Any]) -> dict[TopicPartition, Any]:
    return {_place(each): each for each in partitions if each.error is None}


def _place(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
