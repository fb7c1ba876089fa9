"""What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs work on: topics, groups, the broker, its loggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Protocol, TypeVar

from oncestream.broker import broker_configs, broker_loggers, topic_configs
from oncestream.broker.broker_configs import CLUSTER
from oncestream.broker.call import Call
from oncestream.broker.catalog import TopicEntry, set_group_configs
from oncestream.broker.config_entries import ConfigEntry, ConfigSource, Synonym
from oncestream.broker.groups import group_configs
from oncestream.broker.node import Node, Topic
from oncestream.broker.security.acls import CLUSTER_NAME
from oncestream.broker.topic_configs import ConfigType
from oncestream.broker.topic_names import AUDIT_TOPIC, check_name, is_internal
from oncestream.wire.acl_codes import Operation
from oncestream.wire.acl_codes import ResourceType as AclResource
from oncestream.wire.error_codes import ErrorCode, KafkaError


class Resource(Protocol):
    """What both altering requests say of a resource."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)
OwnConfigs = Mapping[str, str]
NewConfigs = Mapping[str, str | None]
ChangeOne = Callable[[OwnConfigs], NewConfigs]


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


def describe(node: Node, resource_type: int, name: str) -> list[ConfigEntry]:
    """Every configuration of a topic, a group or of this broker; the levels of its loggers."""
    if resource_type == ResourceType.TOPIC:
        return topic_entries(node, find_topic(node, name).entry)
    if resource_type == ResourceType.BROKER:
        if name == CLUSTER:
            return node.broker_configs.cluster_entries()
        _check_node_id(node, name)
        return node.broker_configs.entries()
    if resource_type == ResourceType.BROKER_LOGGER:
        _check_node_id(node, name)
        return broker_loggers.entries()
    if resource_type == ResourceType.GROUP:
        _check_group_name(name)
        return _group_entries(node, node.catalog.group_configs.get(name, {}))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def guarded_by(resource_type: int, name: str) -> tuple[AclResource, str]:
    """The resource whose ACLs hold for a resource with configurations."""
    if resource_type == ResourceType.TOPIC:
        return AclResource.TOPIC, name
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return AclResource.CLUSTER, CLUSTER_NAME
    if resource_type == ResourceType.GROUP:
        return AclResource.GROUP, name
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def alter(
    call: Call, resources: Sequence[R], change: Callable[[R, OwnConfigs], NewConfigs], validate_only: bool
) -> list[KafkaError | None]:
    """Gives each resource the configurations that `change` makes of its own ones; what was wrong with which."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    outcomes: list[KafkaError | None] = []
    for resource in resources:
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            kind, name = guarded_by(resource.resource_type, resource.resource_name)
            call.require(Operation.ALTER_CONFIGS, kind, name)
            _alter(call, resource, change, validate_only)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(error)
    return outcomes


def check_changes(names: Sequence[str], without_value: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}"
        )


def list_defaults(node: Node) -> dict[str, str]:
    """What a change of a list begins with where nobody has set it, for topics and for the broker."""
    return {
        name: node.started.topic_defaults.get(spec.name, spec.default)
        for spec in topic_configs.TABLE.values()
        if spec.type is ConfigType.LIST
        for name in (spec.name, spec.synonym)
        if name is not None
    }


def _alter(
    call: Call, resource: R, change: Callable[[R, OwnConfigs], NewConfigs], validate_only: bool
) -> None:
    of_one = partial(change, resource)
    if resource.resource_type == ResourceType.BROKER:
        _alter_broker(call, resource.resource_name, of_one, validate_only)
    elif resource.resource_type == ResourceType.BROKER_LOGGER:
        _alter_loggers(call, resource.resource_name, of_one, validate_only)
    elif resource.resource_type == ResourceType.GROUP:
        _alter_group(call, resource.resource_name, of_one, validate_only)
    else:
        _alter_topic(call, resource.resource_name, of_one, validate_only)


def _alter_topic(call: Call, name: str, change: ChangeOne, validate_only: bool) -> None:
    node = call.node
    topic = find_topic(node, name)
    if is_internal(name) and name != AUDIT_TOPIC:  # how long the audit is kept is the operator's choice
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is internal; its configuration is fixed")
    changed = change(topic.entry.configs)
    topic_configs.validate(changed)
    if not validate_only:
        before = topic.entry.configs
        node.set_configs(topic, {key: value for key, value in changed.items() if value is not None})
        call.changed(AclResource.TOPIC, name, "alter configs", was=dict(before), now=dict(changed))


def _alter_group(call: Call, name: str, change: ChangeOne, validate_only: bool) -> None:
    _check_group_name(name)
    node, known = call.node, call.node.catalog.group_configs
    before = known.get(name, {})
    changed = group_configs.validate(change(before), node.settings)
    if changed and name not in known and len(known) >= group_configs.GROUPS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{group_configs.GROUPS_MAX} groups have configurations already"
        )
    if changed != before and not validate_only:
        node.catalog.commit([set_group_configs(name, changed)], node.clock.now_ms())
        call.changed(AclResource.GROUP, name, "alter configs", was=dict(before), now=changed)


def _alter_broker(call: Call, name: str, change: ChangeOne, validate_only: bool) -> None:
    node = call.node
    if name != CLUSTER:
        _check_node_id(node, name)
    before = node.catalog.broker_configs.get(name, {})
    changed = broker_configs.validate(change(before))
    if changed != before and not validate_only:
        node.set_broker_configs(name, changed)
        call.changed(AclResource.CLUSTER, CLUSTER_NAME, "alter configs", was=dict(before), now=changed)


def _alter_loggers(call: Call, name: str, change: ChangeOne, validate_only: bool) -> None:
    _check_node_id(call.node, name)
    before = broker_loggers.levels()
    changed = broker_loggers.validate(change(before))
    if not validate_only:
        broker_loggers.apply(before, changed)
        call.changed(AclResource.CLUSTER, CLUSTER_NAME, "alter log levels", was=before, now=changed)


def find_topic(node: Node, name: str) -> Topic:
    check_name(name)
    topic = node.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def topic_entries(node: Node, entry: TopicEntry) -> list[ConfigEntry]:
    shown = [
        name for name in topic_configs.TABLE if name not in topic_configs.HIDDEN or name in entry.configs
    ]
    entries = []
    for name in shown:
        spec = topic_configs.TABLE[name]
        chain = [] if spec.synonym is None else node.broker_configs.synonyms(spec.synonym)
        if name in entry.configs:
            chain.insert(0, Synonym(name, entry.configs[name], ConfigSource.TOPIC))
        value, source = chain[0][1:] if chain else (spec.default, ConfigSource.DEFAULT)
        entries.append(ConfigEntry(name, value, source, False, spec.type, chain, spec.doc))
    return entries


def _group_entries(node: Node, own: OwnConfigs) -> list[ConfigEntry]:
    entries = []
    for name, spec in group_configs.TABLE.items():
        chain = [Synonym(name, own[name], ConfigSource.GROUP)] if name in own else []
        chain += node.broker_configs.synonyms(f"group.{name}")
        first = chain[0]
        entries.append(ConfigEntry(name, first.value, first.source, False, ConfigType.INT, chain, spec.doc))
    return entries


def _check_group_name(name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _check_node_id(node: Node, name: str) -> None:
    expected = node.settings.node_id
    if not name.isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(expected):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}"
        )
