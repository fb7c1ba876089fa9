"""DeleteTopics (20), versions 1-6: delete topics by name, from version 6 also by id.

A request that allows no time times out at once: nothing is deleted.
Differs from Apache Kafka: internal topics are refused.
"""

from __future__ import annotations

from oncestream.broker.call import Call, no_time
from oncestream.broker.node import Topic
from oncestream.broker.topic_names import is_internal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.schema import NO_UUID


def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    wanted = request.topics if call.version >= 6 else [DeleteTopicState(name=n) for n in request.topic_names]
    if request.timeout_ms <= 0:
        return DeleteTopicsResponse(responses=[_refused(want, no_time()) for want in wanted])
    return DeleteTopicsResponse(responses=[_delete(want, call) for want in wanted])


def _delete(want: DeleteTopicState, call: Call) -> DeletableTopicResult:
    try:
        topic = _find(want, call)
        if is_internal(topic.name):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal and cannot be deleted"
            )
        call.node.delete_topic(topic)
        call.changed(ResourceType.TOPIC, topic.name, "delete", partitions=len(topic.partitions))
    except KafkaError as error:
        return _refused(want, error)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _refused(want: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=want.name, topic_id=want.topic_id, error_code=error.code, error_message=error.message
    )


def _find(want: DeleteTopicState, call: Call) -> Topic:
    """The topic, if it may be deleted; that it is there is told only to those who may see it."""
    node = call.node
    name, by_id = want.name, want.name is None
    if name is not None and want.topic_id != NO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None:
        name = node.topic_name(want.topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    may_delete_any = call.may(Operation.DELETE, ResourceType.CLUSTER, quiet=True)
    if not may_delete_any and not by_id:
        call.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = node.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    if not may_delete_any:
        call.require(Operation.DELETE, ResourceType.TOPIC, name)
    return topic
