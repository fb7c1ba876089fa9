"""DeleteRecords (21), versions 0-2: forget everything before an offset; -1 means all that is visible.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.topic_names import is_internal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(topic.name, want, call) for want in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(topic: str, want: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    try:
        call.require(Operation.DELETE, ResourceType.TOPIC, topic)
        partition = call.node.partition(topic, want.partition_index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        if is_internal(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
        if not partition.log.config.cleanup_delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{topic} is compacted, not deleted from")
        offset = partition.high_watermark if want.offset == HIGH_WATERMARK else want.offset
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
        low = partition.log.delete_before(offset)
        call.changed(ResourceType.TOPIC, topic, "delete records", partition=want.partition_index, before=low)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=want.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=want.partition_index, low_watermark=low)
