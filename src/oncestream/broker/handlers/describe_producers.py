"""DescribeProducers (61), version 0: who has written to a partition, and whose transaction is open there.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.topic_names import check_name
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(topic.name, index, call) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, call: Call) -> PartitionResponse:
    try:
        check_name(topic)
        call.require(Operation.READ, ResourceType.TOPIC, topic)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    partition = call.node.partition(topic, index)
    if partition is None:
        message = None if topic in call.node.topics else "This server does not host this topic-partition."
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_start_offset,
            )
            for producer in partition.log.producers()
        ],
    )
