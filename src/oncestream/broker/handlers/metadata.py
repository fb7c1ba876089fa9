"""Metadata (3), versions 0-13: the broker's address, topics and their partitions; creates topics on first use.

A topic that is not there is answered as unknown, and made behind the answer where client and broker allow it.
Differs from Apache Kafka: a topic of a stream is made as the stream says; internal topics are not made.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.handlers.create_topics import check_create_rights, check_room
from oncestream.broker.node import Node, Topic
from oncestream.broker.stream_rules import StreamRule
from oncestream.broker.topic_names import check_name, check_new_name, is_internal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncestream.wire.schema import NO_UUID

_IDS_FROM = 12  # versions 10 and 11 have the field but may not use it


def handle(request: MetadataRequest, call: Call) -> MetadataResponse:
    node = call.node
    host, port = call.address
    wanted = request.topics
    if wanted and call.version < _IDS_FROM and any(_by_id(want) for want in wanted):
        return MetadataResponse(topics=[_refused(want) for want in wanted])
    if wanted is None or (call.version == 0 and not wanted):
        topics = [
            _known(node, topic) for name, topic in node.topics.items() if call.sees(ResourceType.TOPIC, name)
        ]
    else:
        create = request.allow_auto_topic_creation and node.settings.auto_create_topics
        by_id = [want for want in wanted if want.topic_id != NO_UUID]  # then names are not looked at
        distinct = {(want.topic_id, want.name): want for want in by_id or wanted}
        topics = [_one(call, want, create) for want in distinct.values()]
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node.settings.node_id, host=host, port=port)],
        cluster_id=node.folder.identity.cluster_id,
        controller_id=node.settings.node_id,
        topics=topics,
    )
    _tell_operations(request, response, call)
    return response


def _tell_operations(request: MetadataRequest, response: MetadataResponse, call: Call) -> None:
    if request.include_cluster_authorized_operations:
        sees = call.may(Operation.DESCRIBE, ResourceType.CLUSTER)
        response.cluster_authorized_operations = call.operations(ResourceType.CLUSTER) if sees else 0
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name)


def _one(call: Call, want: MetadataRequestTopic, create: bool) -> MetadataResponseTopic:
    node = call.node
    if _by_id(want):
        name = node.topic_name(want.topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=want.topic_id
            )
        if not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=refused, name=None, topic_id=want.topic_id)
        return _known(node, node.topics[name])
    name = want.name or ""
    if not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = node.topics.get(name)
    if topic is not None:
        return _known(node, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if create:
            check_create_rights(name, call)
        check_name(name)
        if create and not is_internal(name):  # those are made by the coordinators, in their own way
            _make_soon(call, name)
    except KafkaError as error:
        code = error.code
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _make_soon(call: Call, name: str) -> None:
    node = call.node
    rule = node.stream_rules.of(name)
    if rule is None or rule.auto_create:
        check_room(node, _partition_count(node, rule))
        node.first_use.make_soon(name, lambda: _make(call, name))


def _make(call: Call, name: str) -> None:
    """Looks at everything anew: the topic may be there by now, or its stream may say otherwise."""
    node = call.node
    rule = node.stream_rules.of(name)
    if name in node.topics or (rule is not None and not rule.auto_create):
        return
    check_new_name(name, node.topics, ignores_case=node.folder.ignores_case)
    partitions = _partition_count(node, rule)
    check_room(node, partitions)
    node.create_topic(name, partitions, {} if rule is None else rule.configs)
    call.changed(ResourceType.TOPIC, name, "create on first use", partitions=partitions)


def _partition_count(node: Node, rule: StreamRule | None) -> int:
    return node.settings.default_partitions if rule is None else rule.partitions


def _by_id(want: MetadataRequestTopic) -> bool:
    return want.name is None or want.topic_id != NO_UUID


def _refused(want: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=want.name or "", topic_id=want.topic_id
    )


def _known(node: Node, topic: Topic) -> MetadataResponseTopic:
    here = [node.settings.node_id]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=node.settings.node_id,
                leader_epoch=partition.log.leader_epoch,
                replica_nodes=here,
                isr_nodes=here,
            )
            for partition in topic.partitions
        ],
    )
