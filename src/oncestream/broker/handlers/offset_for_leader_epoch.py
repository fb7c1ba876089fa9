"""OffsetForLeaderEpoch (23), versions 2-4: where the records of a leader epoch end.

The epoch grows with every start after a crash. Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.handlers.fetch import check_leader_epoch
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_find(topic.topic, want, call) for want in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _find(topic: str, want: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    try:
        if not call.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, quiet=True):
            call.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = call.node.partition(topic, want.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        check_leader_epoch(want.current_leader_epoch, partition.log.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=want.partition)
    epoch, end = partition.log.end_offset_for_epoch(want.leader_epoch)
    return EpochEndOffset(partition=want.partition, leader_epoch=epoch, end_offset=end)
