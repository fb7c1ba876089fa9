"""OffsetDelete (47), version 0: forget offsets of a group in topics it is not subscribed to.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.groups import commits
from oncestream.broker.groups.step import Step
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | Later:
    node = call.node
    if not call.may(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    wanted = {topic.name: [p.partition_index for p in topic.partitions] for topic in request.topics}
    readable = {name for name in wanted if call.may(Operation.READ, ResourceType.TOPIC, name)}
    known = {
        name: [index for index in indexes if name in readable and node.partition(name, index) is not None]
        for name, indexes in wanted.items()
    }
    step = Step(node.clock.now_ms())
    try:
        in_use = commits.delete(node.groups, request.group_id, known, step)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    later = Later()
    topics = [
        OffsetDeleteResponseTopic(
            name=name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=index,
                    error_code=_code(index in known[name], name in in_use)
                    if name in readable
                    else ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for index in indexes
            ],
        )
        for name, indexes in wanted.items()
    ]
    deleted = {name: indexes for name, indexes in known.items() if indexes and name not in in_use}
    if deleted:
        call.changed(ResourceType.GROUP, request.group_id, "delete offsets", partitions=deleted)
    step.answer(later, OffsetDeleteResponse(topics=topics))
    node.groups.runner.finish(request.group_id, step)
    return later


def _code(exists: bool, in_use: bool) -> ErrorCode:
    if not exists:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
