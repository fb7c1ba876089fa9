"""ListOffsets (2), versions 1-11: the first or last offset, or the first one at or after a time.

The latest offset is the last stable one for readers of committed data. Negative timestamps ask for a place:
see `Place`. Differs from Apache Kafka: nothing is tiered, so places in remote storage answer -1; where the record
with the largest time was deleted (DeleteRecords), the answer is -1, not an offset below the start of the log.
"""

from __future__ import annotations

from enum import IntEnum

from oncestream.broker.call import Call
from oncestream.broker.handlers.fetch import READ_COMMITTED, check_leader_epoch
from oncestream.broker.partition import Partition
from oncestream.storage.index import TimestampOffset
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class Place(IntEnum):
    """Timestamps that stand for a place in the log."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_PLACE_FROM_VERSION = {
    Place.LATEST: 1,
    Place.EARLIEST: 1,
    Place.MAX_TIMESTAMP: 7,
    Place.EARLIEST_LOCAL: 8,
    Place.LATEST_TIERED: 9,
    Place.EARLIEST_PENDING_UPLOAD: 11,
}


def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    committed_only = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(topic.name, want, committed_only, call) for want in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    topic: str, want: ListOffsetsPartition, committed_only: bool, call: Call
) -> ListOffsetsPartitionResponse:
    try:
        call.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = call.node.partition(topic, want.partition_index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        check_leader_epoch(want.current_leader_epoch, partition.log.leader_epoch)
        found = _find(partition, want.timestamp, committed_only, call.version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=want.partition_index, error_code=error.code)
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=want.partition_index)
    return ListOffsetsPartitionResponse(
        partition_index=want.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=partition.log.leader_epoch,
    )


def _find(partition: Partition, timestamp: int, committed_only: bool, version: int) -> TimestampOffset | None:
    log = partition.log
    upper = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp >= 0:
        return log.offset_for_timestamp(timestamp, upper)
    if timestamp not in _PLACE_FROM_VERSION or version < _PLACE_FROM_VERSION[Place(timestamp)]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in version {version}")
    match Place(timestamp):
        case Place.LATEST:
            return TimestampOffset(-1, upper)
        case Place.EARLIEST | Place.EARLIEST_LOCAL:
            return TimestampOffset(-1, log.start_offset)
        case Place.MAX_TIMESTAMP:
            found = log.max_timestamp()
            return found if found is not None and log.start_offset <= found.offset < upper else None
        case Place.LATEST_TIERED | Place.EARLIEST_PENDING_UPLOAD:
            return None
