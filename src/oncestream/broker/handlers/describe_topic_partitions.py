"""DescribeTopicPartitions (75), version 0: topics and partitions in pages, sorted by name.

Differs from Apache Kafka: the lists of eligible leader replicas are always empty.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.node import Node
from oncestream.broker.topic_names import check_name, is_internal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
    TopicRequest,
)

PARTITIONS_PER_ANSWER_MAX = 2000


def handle(request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    node = call.node
    cursor = request.cursor
    everything = not request.topics
    names = sorted({want.name for want in request.topics} or node.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return DescribeTopicPartitionsResponse(topics=[_refused(want) for want in request.topics])
        names = [name for name in names if name >= cursor.topic_name]
    hidden = {name for name in names if not _may_see(name, everything, call)}
    names = [name for name in names if name not in hidden]
    left = max(1, min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left <= 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=first)
            break
        topic, more = _describe(node, name, first, left)
        topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, name)
        response.topics.append(topic)
        left -= len(topic.partitions)
        if more is not None:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=more)
            break
    if not everything:
        response.topics += [_hidden(name) for name in sorted(hidden)]
    return response


def _may_see(name: str, everything: bool, call: Call) -> bool:
    if everything:
        return call.sees(ResourceType.TOPIC, name)
    return call.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _refused(want: TopicRequest) -> DescribeTopicPartitionsResponseTopic:
    """The cursor is not on one of the topics asked for."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=want.name)


def _describe(
    node: Node, name: str, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """One topic's page, and the partition to go on with if it has more."""
    topic = node.topics.get(name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            check_name(name)
        except KafkaError as error:
            code = error.code
        return DescribeTopicPartitionsResponseTopic(error_code=code, name=name), None
    here = [node.settings.node_id]
    stop = first + limit
    page = [
        DescribeTopicPartitionsResponsePartition(
            partition_index=partition.index,
            leader_id=node.settings.node_id,
            leader_epoch=partition.log.leader_epoch,
            replica_nodes=here,
            isr_nodes=here,
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
        for partition in topic.partitions[first:stop]
    ]
    described = DescribeTopicPartitionsResponseTopic(
        name=name, topic_id=topic.id, is_internal=is_internal(name), partitions=page
    )
    return described, stop if stop < len(topic.partitions) else None
