"""What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs work on: topics, groups, and the broker itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from oncestream.broker import topic_configs
from oncestream.broker.call import Call
from oncestream.broker.catalog import TopicEntry, set_group_configs
from oncestream.broker.groups import group_configs
from oncestream.broker.listeners import with_protocols
from oncestream.broker.node import Node, Topic
from oncestream.broker.security.acls import CLUSTER_NAME
from oncestream.broker.settings import BrokerSettings
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
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, in the codes of DescribeConfigs."""

    NONE = 0
    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration that holds, and what it would be without the first one."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    type: ConfigType
    synonyms: list[Synonym]
    doc: str


def describe(node: Node, resource_type: int, name: str) -> list[ConfigEntry]:
    """Every configuration of a topic, a group or of this broker."""
    if resource_type == ResourceType.TOPIC:
        return topic_entries(node, find_topic(node, name).entry)
    if resource_type == ResourceType.BROKER:
        _check_broker_name(node, name)
        return [] if name == "" else _broker_entries(node)
    if resource_type == ResourceType.GROUP:
        _check_group_name(name)
        return _group_entries(node, node.catalog.group_configs.get(name, {}))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def guarded_by(resource_type: int, name: str) -> tuple[AclResource, str]:
    """The resource whose ACLs hold for a resource with configurations."""
    if resource_type == ResourceType.TOPIC:
        return AclResource.TOPIC, name
    if resource_type == ResourceType.BROKER:
        return AclResource.CLUSTER, CLUSTER_NAME
    if resource_type == ResourceType.GROUP:
        return AclResource.GROUP, name
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def alter(
    call: Call, resources: Sequence[R], change: Callable[[R, OwnConfigs], NewConfigs], validate_only: bool
) -> list[KafkaError | None]:
    """Gives each topic or group the configurations that `change` makes of its own ones; what was wrong with which."""
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


def _alter(
    call: Call, resource: R, change: Callable[[R, OwnConfigs], NewConfigs], validate_only: bool
) -> None:
    of_one = partial(change, resource)
    if resource.resource_type == ResourceType.BROKER:
        _alter_broker(call, resource.resource_name, of_one)
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


def _alter_broker(call: Call, name: str, change: ChangeOne) -> None:
    """To take away what was never set changes nothing: so Kafka's tools clear throttles."""
    _check_broker_name(call.node, name)
    if change({}):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the broker's settings are read at its start; see docs/settings.md"
        )


def find_topic(node: Node, name: str) -> Topic:
    check_name(name)
    topic = node.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def topic_entries(node: Node, entry: TopicEntry) -> list[ConfigEntry]:
    defaults = node.settings.topic_defaults
    shown = [
        name for name in topic_configs.TABLE if name not in topic_configs.HIDDEN or name in entry.configs
    ]
    entries = []
    for name in shown:
        spec = topic_configs.TABLE[name]
        chain = []
        if name in entry.configs:
            chain.append(Synonym(name, entry.configs[name], ConfigSource.TOPIC))
        if name in defaults:
            chain.append(Synonym(spec.synonym or name, defaults[name], ConfigSource.STATIC_BROKER))
        chain.append(Synonym(spec.synonym or name, spec.default, ConfigSource.DEFAULT))
        first = chain[0]
        entries.append(ConfigEntry(name, first.value, first.source, False, spec.type, chain, spec.doc))
    return entries


def _group_entries(node: Node, own: OwnConfigs) -> list[ConfigEntry]:
    entries = []
    for name, spec in group_configs.TABLE.items():
        default = str(spec.default(node.settings))
        chain = [Synonym(name, own[name], ConfigSource.GROUP)] if name in own else []
        chain.append(Synonym(name, default, ConfigSource.DEFAULT))
        first = chain[0]
        entries.append(ConfigEntry(name, first.value, first.source, False, ConfigType.INT, chain, spec.doc))
    return entries


def _check_group_name(name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _check_broker_name(node: Node, name: str) -> None:
    if name not in ("", str(node.settings.node_id)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.settings.node_id} or empty string, but received {name}",
        )


def _broker_entries(node: Node) -> list[ConfigEntry]:
    settings, defaults = node.settings, BrokerSettings()
    served = replace(settings, advertise=node.advertised_listeners)
    entries = []
    for name, type_, read in _BROKER_TABLE:
        value, default = read(served), read(defaults)
        entries.append(_broker_entry(name, type_, value, None if value == default else default))
    for spec in topic_configs.TABLE.values():
        if spec.synonym is not None:
            given = settings.topic_defaults.get(spec.name)
            entries.append(
                _broker_entry(spec.synonym, spec.type, given or spec.default, given and spec.default)
            )
    return entries


def _broker_entry(name: str, type_: ConfigType, value: str, default: str | None) -> ConfigEntry:
    """`default` is given where the value is not the default."""
    source = ConfigSource.DEFAULT if default is None else ConfigSource.STATIC_BROKER
    chain = [Synonym(name, value, source)]
    if default is not None:
        chain.append(Synonym(name, default, ConfigSource.DEFAULT))
    return ConfigEntry(
        name, value, source, True, type_, chain, "set when the broker starts; see docs/settings.md"
    )


def _flag(value: bool) -> str:
    return str(value).lower()


_BROKER_TABLE: Final[tuple[tuple[str, ConfigType, Callable[[BrokerSettings], str]], ...]] = (
    ("node.id", ConfigType.INT, lambda s: str(s.node_id)),
    ("broker.id", ConfigType.INT, lambda s: str(s.node_id)),
    ("log.dirs", ConfigType.STRING, lambda s: str(s.data)),
    ("listeners", ConfigType.LIST, lambda s: with_protocols(s.listen, s)),
    ("advertised.listeners", ConfigType.LIST, lambda s: with_protocols(s.advertise or s.listen, s)),
    ("auto.create.topics.enable", ConfigType.BOOLEAN, lambda s: _flag(s.auto_create_topics)),
    ("num.partitions", ConfigType.INT, lambda s: str(s.default_partitions)),
    ("default.replication.factor", ConfigType.INT, lambda _: "1"),
    ("max.connections", ConfigType.INT, lambda s: str(s.connections_max)),
    ("connections.max.idle.ms", ConfigType.LONG, lambda s: str(s.idle_ms_max)),
    ("socket.request.max.bytes", ConfigType.INT, lambda s: str(s.frame_bytes_max)),
    ("queued.max.request.bytes", ConfigType.LONG, lambda s: str(s.in_flight_bytes_max)),
    ("fetch.max.bytes", ConfigType.INT, lambda s: str(s.fetch_bytes_max)),
    ("log.retention.hours", ConfigType.INT, lambda _: "168"),
    ("log.roll.hours", ConfigType.INT, lambda _: "168"),
    ("log.retention.check.interval.ms", ConfigType.LONG, lambda s: str(s.housekeeping_ms)),
    ("producer.id.expiration.ms", ConfigType.INT, lambda s: str(s.producer_id_expiration_ms)),
)
