"""CreatePartitions (37), versions 0-3: give topics more partitions; there is no way back.

Differs from Apache Kafka: a manual assignment can only name this node; internal topics are refused.
"""

from __future__ import annotations

from collections import Counter

from oncestream.broker.call import Call
from oncestream.broker.handlers.create_topics import PARTITIONS_PER_REQUEST_MAX
from oncestream.broker.node import Node
from oncestream.broker.topic_names import is_internal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for name, count in named.items():
        result = CreatePartitionsTopicResult(name=name)
        try:
            if count > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            call.require(Operation.ALTER, ResourceType.TOPIC, name)
            _grow(call, next(t for t in request.topics if t.name == name), request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return CreatePartitionsResponse(results=results)


def _grow(call: Call, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    node = call.node
    topic = node.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if is_internal(topic.name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name} is internal; its partitions are fixed")
    have = len(topic.partitions)
    if wanted.count <= have:
        reason = (
            f"Topic already has {have} partition(s)."
            if wanted.count == have
            else f"The topic {wanted.name} currently has {have} partition(s); {wanted.count} would not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, reason)
    more = wanted.count - have
    if more > PARTITIONS_PER_REQUEST_MAX or node.partition_count() + more > node.settings.partitions_max:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{more} more partitions are above the limits ({PARTITIONS_PER_REQUEST_MAX} a request,"
            f" {node.settings.partitions_max} on the broker)",
        )
    _check_assignments(node, wanted, more)
    if not validate_only:
        node.add_partitions(topic, wanted.count)
        call.changed(ResourceType.TOPIC, topic.name, "add partitions", was=have, now=wanted.count)


def _check_assignments(node: Node, wanted: CreatePartitionsTopic, more: int) -> None:
    if wanted.assignments is None:
        return
    if len(wanted.assignments) != more:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{more} additional partition(s) but {len(wanted.assignments)} assignment(s)",
        )
    if any(assignment.broker_ids != [node.settings.node_id] for assignment in wanted.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the only broker there is has id {node.settings.node_id}"
        )
