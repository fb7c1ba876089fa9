"""The catalogue: topics, their ids, configurations of topics, groups and the broker, users, the next producer id.

It is a log like any other (folder `__cluster_metadata-0`): a change is a list of records, appended and
flushed, and `replay` alone changes the state, so start-up and normal running share one path.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from oncestream.broker.security.acls import Acl
from oncestream.broker.security.quota_values import Entity
from oncestream.records.records import Record, build_batch, records_of
from oncestream.storage.config import LogConfig
from oncestream.storage.folder import DataFolder
from oncestream.storage.log import Log
from oncestream.storage.reserve import Reserve
from oncestream.storage.room import DiskFull

if TYPE_CHECKING:
    from oncestream.broker.security.scram import Credential, Mechanism

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
PRODUCER_ID_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic as the catalogue knows it: what was set on it, not the defaults."""

    name: str
    id: bytes
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


class UserKey(NamedTuple):
    """A user has a credential for each mechanism."""

    name: str
    mechanism: Mechanism


class Change(NamedTuple):
    """One record of the catalogue's log; no value deletes the key."""

    key: str
    value: Mapping[str, object] | None


class Catalog:
    """The catalogue's state and its log."""

    def __init__(self, log: Log, reserve: Reserve) -> None:
        self.log = log
        self._reserve = reserve
        self.topics: dict[str, TopicEntry] = {}
        self.names: dict[bytes, str] = {}
        self.deleted_ids: set[bytes] = set()
        self.next_producer_id = 0
        self.features: dict[str, int] = {}  # those that were set to a level
        self.acls: set[Acl] = set()
        self.acls_version = 0
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.quotas_version = 0
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.broker_configs: dict[str, Mapping[str, str]] = {}  # by node id; "" stands for the whole cluster
        self.users: dict[UserKey, Credential] = {}
        self.login_secret = b""  # made with the first listener that asks for a log-in
        for batch in log.batches(log.start_offset):
            for record in records_of(batch):
                value = None if record.value is None else json.loads(record.value)
                self.replay(Change((record.key or b"").decode(), value))

    @classmethod
    def open(cls, folder: DataFolder) -> Self:
        config = LogConfig(cleanup_delete=False, cleanup_compact=True)
        return cls(folder.open_log(METADATA_TOPIC, 0, METADATA_TOPIC_ID, config), folder.reserve)

    def commit(self, changes: Iterable[Change], now_ms: int = 0, *, makes_room: bool = False) -> None:
        """Makes the changes durable, all or none, then applies them. Those that make room on a full disk find some."""
        kept = list(changes)
        records = [Record(i, now_ms, c.key.encode(), _encode(c.value)) for i, c in enumerate(kept)]
        batch = memoryview(build_batch(records))
        try:
            self.log.append(batch, internal=True)
        except DiskFull:
            if not makes_room or not self._reserve.release():
                raise
            self.log.append(batch, internal=True)
        ticket = self.log.unsynced()
        if ticket is not None:
            ticket.run()
            self.log.synced(ticket)
        for change in kept:
            self.replay(change)

    def replay(self, change: Change) -> None:
        kind, _, rest = change.key.partition(":")
        value = change.value
        if kind == "topic":
            self._replay_topic(bytes.fromhex(rest), value)
        elif kind == "feature" and value is not None:
            self.features[rest] = int(str(value["level"]))
        elif kind == "producer_ids" and value is not None:
            self.next_producer_id = int(str(value["next"]))
        elif kind == "acl":
            self.acls_version += 1
            (self.acls.discard if value is None else self.acls.add)(Acl.parse(rest))
        elif kind == "quota":
            self.quotas_version += 1
            self._replay_quota(Entity.parse(rest), value)
        elif kind == "group":
            _replay_configs(self.group_configs, rest, value)
        elif kind == "broker":
            _replay_configs(self.broker_configs, rest, value)
        elif kind == "user":
            self._replay_user(rest, value)
        elif kind == "login_secret" and value is not None:
            self.login_secret = bytes.fromhex(str(value["secret"]))

    def _replay_user(self, key: str, value: Mapping[str, object] | None) -> None:
        from oncestream.broker.security.scram import (
            Credential,
            Mechanism,
        )  # only a broker with users needs it

        name, _, mechanism_name = key.rpartition(":")
        mechanism = Mechanism[mechanism_name]
        if value is None:
            self.users.pop(UserKey(name, mechanism), None)
        else:
            self.users[UserKey(name, mechanism)] = Credential.of_json(mechanism, value)

    def _replay_topic(self, topic_id: bytes, value: Mapping[str, object] | None) -> None:
        old_name = self.names.pop(topic_id, None)
        if old_name is not None:
            del self.topics[old_name]
        if value is None:
            self.deleted_ids.add(topic_id)
            return
        configs = value["configs"]
        assert isinstance(configs, dict)
        name = str(value["name"])
        self.topics[name] = TopicEntry(name, topic_id, int(str(value["partitions"])), configs)
        self.names[topic_id] = name

    def _replay_quota(self, entity: Entity, value: Mapping[str, object] | None) -> None:
        if value is None:
            self.quotas.pop(entity, None)
        else:
            self.quotas[entity] = {key: float(str(limit)) for key, limit in value.items()}


def _replay_configs(
    table: dict[str, Mapping[str, str]], name: str, value: Mapping[str, object] | None
) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = {key: str(config) for key, config in value.items()}


def _encode(value: Mapping[str, object] | None) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def put_topic(entry: TopicEntry) -> Change:
    value = {"name": entry.name, "partitions": entry.partitions, "configs": dict(entry.configs)}
    return Change(f"topic:{entry.id.hex()}", value)


def drop_topic(entry: TopicEntry) -> Change:
    return Change(f"topic:{entry.id.hex()}", None)


def set_feature(name: str, level: int) -> Change:
    return Change(f"feature:{name}", {"level": level})


def put_user(name: str, credential: Credential) -> Change:
    return Change(f"user:{name}:{credential.mechanism.name}", credential.to_json())


def drop_user(key: UserKey) -> Change:
    return Change(f"user:{key.name}:{key.mechanism.name}", None)


def set_login_secret(secret: bytes) -> Change:
    return Change("login_secret", {"secret": secret.hex()})


def put_acl(acl: Acl) -> Change:
    return Change(f"acl:{acl.text}", {})


def drop_acl(acl: Acl) -> Change:
    return Change(f"acl:{acl.text}", None)


def set_quotas(entity: Entity, limits: Mapping[str, float]) -> Change:
    """All limits of an entity; none: it has no quotas any longer."""
    return Change(f"quota:{entity.text}", limits or None)


def set_group_configs(group_id: str, configs: Mapping[str, str]) -> Change:
    """All configurations of a group; none: it has those of the broker."""
    return Change(f"group:{group_id}", configs or None)


def set_broker_configs(node_id: str, configs: Mapping[str, str]) -> Change:
    """All configurations that clients gave the broker, or (no id) the cluster; none: they have those of the start."""
    return Change(f"broker:{node_id}", configs or None)


def reserve_producer_ids(first: int) -> Change:
    return Change("producer_ids", {"next": first + PRODUCER_ID_BLOCK})


def new_topic_id() -> bytes:
    """Random, never one of Kafka's reserved ids (zero and one), never starting with a dash in base64."""
    while True:
        made = bytearray(os.urandom(16))
        made[6] = (made[6] & 0x0F) | 0x40
        made[8] = (made[8] & 0x3F) | 0x80
        if base64.urlsafe_b64encode(made)[:1] != b"-":
            return bytes(made)
