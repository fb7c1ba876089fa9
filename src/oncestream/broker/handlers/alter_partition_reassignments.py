"""AlterPartitionReassignments (45), versions 0-1: where replicas shall be; here they are, and can be nowhere else.

Differs from Apache Kafka: nothing that one node could show.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.node import Node
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(request: AlterPartitionReassignmentsRequest, call: Call) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    refusal: KafkaError | None = None
    try:
        call.require(Operation.ALTER, ResourceType.CLUSTER)
    except KafkaError as error:
        refusal = error
        response.error_code, response.error_message = error.code, error.message
    response.responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _answer(wanted, refusal or _why_not(call.node, topic.name, wanted))
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return response


def _why_not(node: Node, topic: str, wanted: ReassignablePartition) -> KafkaError | None:
    """None: the replicas are where they are wanted."""
    if node.partition(topic, wanted.partition_index) is None:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{wanted.partition_index}"
        )
    if wanted.replicas is None:  # to be given up
        return KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no replica is on its way")
    here = node.settings.node_id
    if wanted.replicas != [here]:
        return KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {wanted.replicas}: the only broker there is has id {here}",
        )
    return None


def _answer(wanted: ReassignablePartition, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
