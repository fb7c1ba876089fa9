"""One request or more of every API that the broker serves, and what somebody without rights is told.

A new API without a case here fails `test_authorization.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from oncestream.broker.apis import APIS
from oncestream.records.records import Record, build_batch
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.schema import Message, Struct, StructType, struct_classes
from tests.broker.kit import batch

TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS: Final = frozenset({TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID})
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 32
NOT_TOLD: Final = -(2**31)

Body = dict[str, Any]


class Names(NamedTuple):
    """What the requests are about; `new` is a topic that nobody has made."""

    topic: str
    topic_id: bytes
    group: str
    transactional_id: str
    new: str


class Case(NamedTuple):
    """`refused`: the error of somebody without rights; None: everybody may ask, and sees only what they may."""

    label: str
    api: ApiKey
    version: int
    refused: ErrorCode | None
    body: Callable[[Names], Body]

    def request(self, names: Names) -> Message:
        made = _make(APIS[self.api].request, self.body(names))
        assert isinstance(made, Message)
        return made

    @property
    def answer(self) -> type[Message]:
        name = self.api.name.lower()
        module = import_module(f"oncestream.wire.messages.{name}")
        found = getattr(module, f"{name.title().replace('_', '')}Response")
        assert issubclass(found, Message)
        return found  # type: ignore[no-any-return]


def codes_in(answer: Struct) -> Iterator[ErrorCode]:
    """Every error code of an answer, wherever it stands."""
    return (ErrorCode(code) for code in _fields(answer, "error_code"))


def operations_in(answer: Struct) -> Iterator[int]:
    """The bit fields by which an answer tells what the sender may do, if it does."""
    return (field for field in _fields(answer, "authorized_operations") if field != NOT_TOLD)


def _fields(message: Struct, suffix: str) -> Iterator[int]:
    for field in type(message).__fields__:
        value = getattr(message, field)
        if field.endswith(suffix):
            yield value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                yield from _fields(inner, suffix)


def _make(cls: StructType, values: Mapping[str, Any]) -> Struct:
    inner = struct_classes(cls)

    def convert(name: str, value: Any) -> Any:
        if name in inner and isinstance(value, list):
            return [_make(inner[name], each) for each in value]
        return value

    made = cls(**{name: convert(name, value) for name, value in values.items()})
    assert isinstance(made, Struct)
    return made


def _by_topic(name: str, partitions: str, partition: Body, key: str = "topics") -> Callable[[Names], Body]:
    return lambda n: {key: [{name: n.topic, partitions: [dict(partition)]}]}


def _produce(n: Names, *, by_id: bool = False, transactional: bool = False) -> Body:
    records = batch(b"x") if not transactional else _transactional()
    topic = {"topic_id": n.topic_id} if by_id else {"name": n.topic}
    return {
        "acks": -1,
        "timeout_ms": 10_000,
        "transactional_id": n.transactional_id if transactional else None,
        "topic_data": [{**topic, "partition_data": [{"index": 0, "records": records}]}],
    }


def _transactional() -> bytes:
    return bytes(
        build_batch([Record(0, 1, None, b"x")], producer_id=987_654, producer_epoch=0, transactional=True)
    )


def _fetch(n: Names, *, by_id: bool = False) -> Body:
    topic = {"topic_id": n.topic_id} if by_id else {"topic": n.topic}
    wanted = {"partition": 0, "partition_max_bytes": 1000}
    return {"max_bytes": 1000, "topics": [{**topic, "partitions": [wanted]}]}


def _config(kind: int, name: str, *, incremental: bool) -> Body:
    names = {TOPIC_RESOURCE: "retention.ms", BROKER_RESOURCE: "log.index.interval.bytes"}
    change = {"name": names.get(kind), "value": "100000"}
    configs = [change | ({"config_operation": 0} if incremental else {})] if kind in names else []
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def _acl_filter() -> Body:
    return {
        "resource_type_filter": 2,
        "resource_name_filter": "no such thing",
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


_NEW_ACL: Final = {
    "resource_type": 2,
    "resource_name": "somewhere",
    "resource_pattern_type": 3,
    "principal": "User:nobody-else",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_COMMIT: Final = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
_QUOTA: Final = {
    "entity": [{"entity_type": "user", "entity_name": "nobody-else"}],
    "ops": [{"key": "producer_byte_rate", "value": 1e9}],
}
_USER: Final = {"name": "nobody-else", "mechanism": 2, "iterations": 4096, "salt": b"s" * 16}

# What changes or deletes the things that others ask about comes last.
CASES: Final = (
    Case("api versions", ApiKey.API_VERSIONS, 0, None, lambda n: {}),
    Case("handshake", ApiKey.SASL_HANDSHAKE, 1, None, lambda n: {"mechanism": "PLAIN"}),
    Case("authenticate", ApiKey.SASL_AUTHENTICATE, 2, None, lambda n: {"auth_bytes": b"x"}),
    Case("produce", ApiKey.PRODUCE, 12, TOPIC, _produce),
    Case("produce by id", ApiKey.PRODUCE, 13, TOPIC, lambda n: _produce(n, by_id=True)),
    Case(
        "produce in a transaction",
        ApiKey.PRODUCE,
        11,
        TRANSACTIONAL_ID,
        lambda n: _produce(n, transactional=True),
    ),
    Case("fetch", ApiKey.FETCH, 12, TOPIC, _fetch),
    Case("fetch by id", ApiKey.FETCH, 17, TOPIC, lambda n: _fetch(n, by_id=True)),
    Case(
        "list offsets",
        ApiKey.LIST_OFFSETS,
        7,
        TOPIC,
        _by_topic("name", "partitions", {"partition_index": 0, "timestamp": -1}),
    ),
    Case(
        "metadata",
        ApiKey.METADATA,
        12,
        TOPIC,
        lambda n: {
            "topics": [{"name": n.topic}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
    ),
    Case(
        "metadata by id",
        ApiKey.METADATA,
        12,
        TOPIC,
        lambda n: {
            "topics": [{"topic_id": n.topic_id, "name": None}],
            "allow_auto_topic_creation": False,
        },
    ),
    Case("metadata of all", ApiKey.METADATA, 12, None, lambda n: {"topics": None}),
    Case(
        "describe topic partitions",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        TOPIC,
        lambda n: {"topics": [{"name": n.topic}]},
    ),
    Case(
        "offset for leader epoch",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        TOPIC,
        lambda n: {
            "replica_id": -1,
            "topics": [{"topic": n.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        },
    ),
    Case(
        "describe producers",
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        TOPIC,
        lambda n: {"topics": [{"name": n.topic, "partition_indexes": [0]}]},
    ),
    Case(
        "describe configs of a topic",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        TOPIC,
        lambda n: {
            "resources": [
                {"resource_type": TOPIC_RESOURCE, "resource_name": n.topic, "configuration_keys": None}
            ]
        },
    ),
    Case(
        "describe configs of the broker",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        CLUSTER,
        lambda n: {
            "resources": [
                {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None}
            ]
        },
    ),
    Case(
        "describe configs of a group",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        GROUP,
        lambda n: {
            "resources": [
                {"resource_type": GROUP_RESOURCE, "resource_name": n.group, "configuration_keys": None}
            ]
        },
    ),
    Case("describe log dirs", ApiKey.DESCRIBE_LOG_DIRS, 4, CLUSTER, lambda n: {"topics": None}),
    Case(
        "describe cluster",
        ApiKey.DESCRIBE_CLUSTER,
        1,
        None,
        lambda n: {"include_cluster_authorized_operations": True},
    ),
    Case(
        "metadata of the cluster",
        ApiKey.METADATA,
        10,
        None,
        lambda n: {"topics": [], "include_cluster_authorized_operations": True},
    ),
    Case("describe acls", ApiKey.DESCRIBE_ACLS, 3, CLUSTER, lambda n: _acl_filter()),
    Case("create acls", ApiKey.CREATE_ACLS, 3, CLUSTER, lambda n: {"creations": [_NEW_ACL]}),
    Case("delete acls", ApiKey.DELETE_ACLS, 3, CLUSTER, lambda n: {"filters": [_acl_filter()]}),
    Case("describe quotas", ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, CLUSTER, lambda n: {"components": []}),
    Case("alter quotas", ApiKey.ALTER_CLIENT_QUOTAS, 1, CLUSTER, lambda n: {"entries": [_QUOTA]}),
    Case(
        "describe users",
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        CLUSTER,
        lambda n: {"users": [{"name": "nobody-else"}]},  # Kafka never answers the refusal of all users
    ),
    Case(
        "alter users",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        CLUSTER,
        lambda n: {"upsertions": [_USER | {"salted_password": b"p" * 64}]},
    ),
    Case(
        "elect leaders",
        ApiKey.ELECT_LEADERS,
        1,
        CLUSTER,
        lambda n: {"topic_partitions": [{"topic": n.topic, "partitions": [0]}]},
    ),
    Case(
        "move partitions",
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        CLUSTER,
        lambda n: {"topics": [{"name": n.topic, "partitions": [{"partition_index": 0}]}]},
    ),
    Case("list partitions on the move", ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, CLUSTER, lambda n: {}),
    Case(
        "list what has configurations",
        ApiKey.LIST_CONFIG_RESOURCES,
        1,
        CLUSTER,
        lambda n: {"resource_types": [TOPIC_RESOURCE, BROKER_RESOURCE]},
    ),
    Case("update features", ApiKey.UPDATE_FEATURES, 1, CLUSTER, lambda n: {"validate_only": True}),
    Case(
        "find a group's coordinator",
        ApiKey.FIND_COORDINATOR,
        4,
        GROUP,
        lambda n: {"key_type": 0, "coordinator_keys": [n.group]},
    ),
    Case(
        "find a transaction's coordinator",
        ApiKey.FIND_COORDINATOR,
        4,
        TRANSACTIONAL_ID,
        lambda n: {"key_type": 1, "coordinator_keys": [n.transactional_id]},
    ),
    Case(
        "consumer group heartbeat",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        GROUP,
        lambda n: {
            "group_id": n.group,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [n.topic],
            "topic_partitions": [],
        },
    ),
    Case(
        "consumer group describe",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        GROUP,
        lambda n: {"group_ids": [n.group], "include_authorized_operations": True},
    ),
    Case(
        "join group",
        ApiKey.JOIN_GROUP,
        7,
        GROUP,
        lambda n: {
            "group_id": n.group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Case(
        "sync group",
        ApiKey.SYNC_GROUP,
        5,
        GROUP,
        lambda n: {
            "group_id": n.group,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    Case("heartbeat", ApiKey.HEARTBEAT, 4, GROUP, lambda n: {"group_id": n.group, "member_id": "m"}),
    Case(
        "leave group",
        ApiKey.LEAVE_GROUP,
        4,
        GROUP,
        lambda n: {"group_id": n.group, "members": [{"member_id": "m"}]},
    ),
    Case(
        "describe groups",
        ApiKey.DESCRIBE_GROUPS,
        5,
        GROUP,
        lambda n: {"groups": [n.group], "include_authorized_operations": True},
    ),
    Case("list groups", ApiKey.LIST_GROUPS, 4, None, lambda n: {}),
    Case(
        "offset commit",
        ApiKey.OFFSET_COMMIT,
        8,
        GROUP,
        lambda n: {"group_id": n.group, "topics": [{"name": n.topic, "partitions": [_COMMIT]}]},
    ),
    Case(
        "offset fetch",
        ApiKey.OFFSET_FETCH,
        8,
        GROUP,
        lambda n: {
            "groups": [{"group_id": n.group, "topics": [{"name": n.topic, "partition_indexes": [0]}]}]
        },
    ),
    Case(
        "offset delete",
        ApiKey.OFFSET_DELETE,
        0,
        GROUP,
        lambda n: {
            "group_id": n.group,
            "topics": [{"name": n.topic, "partitions": [{"partition_index": 0}]}],
        },
    ),
    Case(
        "describe transactions",
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        TRANSACTIONAL_ID,
        lambda n: {"transactional_ids": [n.transactional_id]},
    ),
    Case("list transactions", ApiKey.LIST_TRANSACTIONS, 0, None, lambda n: {}),
    Case(
        "init producer id",
        ApiKey.INIT_PRODUCER_ID,
        4,
        CLUSTER,
        lambda n: {"transactional_id": None, "transaction_timeout_ms": 10_000},
    ),
    Case(
        "init transactions",
        ApiKey.INIT_PRODUCER_ID,
        4,
        TRANSACTIONAL_ID,
        lambda n: {"transactional_id": n.transactional_id, "transaction_timeout_ms": 10_000},
    ),
    Case(
        "add partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        TRANSACTIONAL_ID,
        lambda n: {
            "v3_and_below_transactional_id": n.transactional_id,
            "v3_and_below_topics": [{"name": n.topic, "partitions": [0]}],
        },
    ),
    Case(
        "add partitions of an internal topic",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        TRANSACTIONAL_ID,
        lambda n: {
            "v3_and_below_transactional_id": n.transactional_id,
            "v3_and_below_topics": [{"name": "__consumer_offsets", "partitions": [0]}],
        },
    ),
    Case(
        "add partitions for a broker",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        CLUSTER,
        lambda n: {
            "transactions": [
                {
                    "transactional_id": n.transactional_id,
                    "verify_only": True,
                    "topics": [{"name": n.topic, "partitions": [0]}],
                }
            ]
        },
    ),
    Case(
        "add offsets",
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        TRANSACTIONAL_ID,
        lambda n: {"transactional_id": n.transactional_id, "group_id": n.group},
    ),
    Case(
        "transactional offset commit",
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        TRANSACTIONAL_ID,
        lambda n: {
            "transactional_id": n.transactional_id,
            "group_id": n.group,
            "topics": [{"name": n.topic, "partitions": [_COMMIT]}],
        },
    ),
    Case(
        "end transaction",
        ApiKey.END_TXN,
        4,
        TRANSACTIONAL_ID,
        lambda n: {"transactional_id": n.transactional_id},
    ),
    Case(
        "write markers",
        ApiKey.WRITE_TXN_MARKERS,
        1,
        CLUSTER,
        lambda n: {
            "markers": [{"producer_id": 987_654_321, "topics": [{"name": n.topic, "partition_indexes": [0]}]}]
        },
    ),
    Case(
        "metadata that creates",
        ApiKey.METADATA,
        12,
        TOPIC,
        lambda n: {"topics": [{"name": f"{n.new}-auto"}], "allow_auto_topic_creation": True},
    ),
    Case(
        "create topics",
        ApiKey.CREATE_TOPICS,
        7,
        TOPIC,
        lambda n: {"topics": [{"name": n.new, "num_partitions": 1, "replication_factor": 1}]},
    ),
    Case(
        "create partitions",
        ApiKey.CREATE_PARTITIONS,
        3,
        TOPIC,
        lambda n: {"topics": [{"name": n.topic, "count": 2, "assignments": None}], "timeout_ms": 10_000},
    ),
    Case(
        "alter configs",
        ApiKey.ALTER_CONFIGS,
        2,
        TOPIC,
        lambda n: _config(TOPIC_RESOURCE, n.topic, incremental=False),
    ),
    Case(
        "change configs of a topic",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        TOPIC,
        lambda n: _config(TOPIC_RESOURCE, n.topic, incremental=True),
    ),
    Case(
        "change configs of a group",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        GROUP,
        lambda n: _config(GROUP_RESOURCE, n.group, incremental=True),
    ),
    Case(
        "change configs of the broker",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        CLUSTER,
        lambda n: _config(BROKER_RESOURCE, "1", incremental=True),
    ),
    Case(
        "change configs of the cluster",
        ApiKey.ALTER_CONFIGS,
        2,
        CLUSTER,
        lambda n: _config(BROKER_RESOURCE, "", incremental=False),
    ),
    Case(
        "change levels of loggers",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        CLUSTER,
        lambda n: _config(LOGGER_RESOURCE, "1", incremental=True),
    ),
    Case(
        "delete records",
        ApiKey.DELETE_RECORDS,
        2,
        TOPIC,
        lambda n: {
            "topics": [{"name": n.topic, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 10_000,
        },
    ),
    Case("delete groups", ApiKey.DELETE_GROUPS, 2, GROUP, lambda n: {"groups_names": [n.group]}),
    Case(
        "delete topics",
        ApiKey.DELETE_TOPICS,
        6,
        TOPIC,
        lambda n: {"topics": [{"name": n.topic}], "timeout_ms": 10_000},
    ),
    Case(
        "delete topics by id",
        ApiKey.DELETE_TOPICS,
        6,
        TOPIC,
        lambda n: {"topics": [{"topic_id": n.topic_id}], "timeout_ms": 10_000},
    ),
)
