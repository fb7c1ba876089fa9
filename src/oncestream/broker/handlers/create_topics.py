"""CreateTopics (19), versions 2-7: make topics, each one wholly or not at all.

A request that allows no time times out at once: nothing is made.
Differs from Apache Kafka: the replication factor can only be 1 (or -1), on this one node; internal topics are refused;
a topic of a stream gets the stream's configurations.
"""

from __future__ import annotations

from collections import Counter

from oncestream.broker import topic_configs
from oncestream.broker.call import Call, no_time
from oncestream.broker.catalog import TopicEntry
from oncestream.broker.config_entries import ConfigSource
from oncestream.broker.config_resources import topic_entries
from oncestream.broker.node import Node
from oncestream.broker.topic_names import check_new_name
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncestream.wire.schema import NO_UUID

DEFAULT = -1
PARTITIONS_PER_REQUEST_MAX = 10_000


def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for name, count in named.items():
        wanted = next(topic for topic in request.topics if topic.name == name)
        try:
            if count > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name: {name}")
            check_create_rights(name, call)
            if request.timeout_ms <= 0:
                raise no_time()
            results.append(_create(call, wanted, request.validate_only))
        except KafkaError as error:
            results.append(
                CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)
            )
    return CreateTopicsResponse(topics=results)


def check_create_rights(name: str, call: Call) -> None:
    if not call.may(Operation.CREATE, ResourceType.CLUSTER, quiet=True):
        call.require(Operation.CREATE, ResourceType.TOPIC, name)


def _create(call: Call, wanted: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    node = call.node
    check_new_name(wanted.name, node.topics, ignores_case=node.folder.ignores_case)
    partitions = _partition_count(node, wanted)
    configs = _configs(node, wanted)
    check_room(node, partitions)
    if validate_only:
        entry = TopicEntry(wanted.name, NO_UUID, partitions, configs)
    else:
        entry = node.create_topic(wanted.name, partitions, configs).entry
        call.changed(ResourceType.TOPIC, wanted.name, "create", partitions=partitions, configs=configs)
    if not call.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, wanted.name, quiet=True):
        return _without_configs(entry)
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=entry.id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=made.name,
                value=made.value,
                config_source=made.source if made.source is not ConfigSource.NONE else ConfigSource.DEFAULT,
            )
            for made in topic_entries(node, entry)
        ],
    )


def _without_configs(entry: TopicEntry) -> CreatableTopicResult:
    """For those who may make a topic but not see how it is configured."""
    return CreatableTopicResult(
        name=entry.name,
        topic_id=entry.id,
        error_message=None,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def check_room(node: Node, more: int) -> None:
    if node.partition_count() + more > node.settings.partitions_max:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the broker holds at most {node.settings.partitions_max} partitions (setting partitions_max)",
        )


def _configs(node: Node, wanted: CreatableTopic) -> dict[str, str]:
    """Those wanted; of a stream's topic, what the stream says of it wins."""
    configs = {config.name: config.value for config in wanted.configs}
    topic_configs.validate(configs)
    rule = node.stream_rules.of(wanted.name)
    given = {name: value for name, value in configs.items() if value is not None}
    return given if rule is None else {**given, **rule.configs}


def _partition_count(node: Node, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        return _assigned(node, wanted)
    if wanted.replication_factor == 0 or wanted.replication_factor < DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.replication_factor > 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {wanted.replication_factor}: this broker is a single node; use 1, or Apache"
            " Kafka for more copies",
        )
    count = wanted.num_partitions
    if count == DEFAULT:
        rule = node.stream_rules.of(wanted.name)
        count = node.settings.default_partitions if rule is None else rule.partitions
    if count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"more than {PARTITIONS_PER_REQUEST_MAX} partitions in one request"
        )
    return count


def _assigned(node: Node, wanted: CreatableTopic) -> int:
    if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment, partitions and replication factor must be -1",
        )
    indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
    if indexes != list(range(len(indexes))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0, each once"
        )
    if any(assignment.broker_ids != [node.settings.node_id] for assignment in wanted.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the only broker there is has id {node.settings.node_id}; assign each partition to it alone",
        )
    return len(indexes)
