"""The node: everything the handlers work on. One event loop owns it; nothing here knows about sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from oncestream.broker import topic_configs
from oncestream.broker.broker_configs import BrokerConfigs, in_force
from oncestream.broker.catalog import (
    METADATA_TOPIC,
    PRODUCER_ID_BLOCK,
    Catalog,
    TopicEntry,
    drop_topic,
    new_topic_id,
    put_topic,
    reserve_producer_ids,
    set_broker_configs,
)
from oncestream.broker.clock import Clock
from oncestream.broker.features import TRANSACTION_VERSION, levels_in_force
from oncestream.broker.first_use import FirstUse
from oncestream.broker.flush_wait import FlushTimeouts
from oncestream.broker.group_commit import GroupCommit
from oncestream.broker.partition import Partition
from oncestream.broker.settings import BrokerSettings, Durability
from oncestream.broker.stream_rules import StreamRules
from oncestream.broker.sync_threads import FlushRunner, SyncThreads
from oncestream.broker.topic_names import INTERNAL, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncestream.errors import BadSetting, DataFolderUnusable
from oncestream.storage.config import LogConfig
from oncestream.storage.disk import REAL_DISK, Disk
from oncestream.storage.folder import DataFolder
from oncestream.storage.room import lacks_room
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.groups.coordinator import GroupCoordinator
    from oncestream.broker.security.audit import Audit
    from oncestream.broker.security.authorizer import Authorizer
    from oncestream.broker.security.quotas import Quotas
    from oncestream.broker.transactions.coordinator import TransactionCoordinator

MESSAGE_BYTES_MAX: Final = LogConfig().max_message_bytes

logger = logging.getLogger("oncestream.broker")


@dataclass(slots=True)
class Topic:
    """A topic with its open partitions."""

    entry: TopicEntry
    partitions: list[Partition]

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def id(self) -> bytes:
        return self.entry.id


class Node:
    """The broker without its network: topics, partitions, producer ids."""

    def __init__(
        self,
        settings: BrokerSettings,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk = REAL_DISK,
        flush_runner: FlushRunner | None = None,
    ) -> None:
        self.settings = settings  # those in force: as `started`, but for what clients have changed since
        self.started = settings
        self.loop = loop
        self.clock = clock
        self.address: tuple[str, int] = ("", 0)
        self.advertised_listeners = ""  # as Kafka writes them
        self.topics: dict[str, Topic] = {}
        self.stream_rules = StreamRules(self.topics)
        self.first_use = FirstUse(loop)
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._quotas: Quotas | None = None
        self._broker_configs: BrokerConfigs | None = None
        self.authorizer: Authorizer | None = None  # None: everybody may do everything
        self.audit: Audit | None = None
        self._check_topic_defaults()
        self.folder = DataFolder.open(
            settings.data, clock_ms=clock.now_ms, disk=disk, open_files_max=settings.open_files_max
        )
        runner = flush_runner or SyncThreads(loop, settings.sync_threads)
        self.commits = GroupCommit(loop, runner, self.folder.journal)
        self.flush_timeouts = FlushTimeouts(loop, clock)
        try:
            self.catalog = Catalog.open(self.folder)
            self.settings = in_force(settings, self.catalog.broker_configs)
            self._open_topics()
            self.folder.journal.start(self.catalog.names, active=self.durable)
            self.folder.started()
            if settings.authorization:
                self._open_security()
            self._producer_id_next = self._producer_id_end = self.catalog.next_producer_id
            if OFFSETS_TOPIC in self.topics:
                self.groups  # noqa: B018 - read before the first client comes
            if TRANSACTIONS_TOPIC in self.topics:
                self.transactions  # noqa: B018 - what was about to end is ended
        except BaseException:
            self.commits.close()
            self.folder.abandon()
            raise

    # -- look-ups, on the hot path ------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.catalog.names.get(topic_id)

    @property
    def groups(self) -> GroupCoordinator:
        """The consumer groups; a broker without any does not pay for them."""
        if self._groups is None:
            from oncestream.broker.groups.coordinator import GroupCoordinator
            from oncestream.broker.state_log import StateLog

            log = StateLog(self, OFFSETS_TOPIC, self.settings.offsets_partitions)
            self._groups = GroupCoordinator(
                self.settings, log, self.topics, self.clock, self.loop, self.catalog.group_configs
            )
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids; a broker without any does not pay for them."""
        if self._transactions is None:
            from oncestream.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(self)
        return self._transactions

    @property
    def quotas(self) -> Quotas:
        """What clients have sent and taken lately; asked for only where a quota is set."""
        if self._quotas is None:
            from oncestream.broker.security.quotas import Quotas

            self._quotas = Quotas(self.catalog)
        return self._quotas

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The broker's configurations by Kafka's names; few clients ask for them."""
        if self._broker_configs is None:
            told = replace(self.started, advertise=self.advertised_listeners)
            self._broker_configs = BrokerConfigs(told, self.catalog.broker_configs)
        return self._broker_configs

    @property
    def transaction_version(self) -> int:
        return levels_in_force(self.catalog.features)[TRANSACTION_VERSION]

    @property
    def durable(self) -> bool:
        return self.settings.durability is Durability.FSYNC

    # -- changes ------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Makes a topic whose name, size and configurations were checked before."""
        if name in self.catalog.topics:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name} could not be opened at the start")
        entry = TopicEntry(name, new_topic_id(), partitions, dict(configs))
        topic = self.topics[name] = Topic(entry, self._make_partitions(entry, 0))
        if self._groups is not None:
            self._groups.topics_changed()
        return topic

    def add_partitions(self, topic: Topic, total: int) -> None:
        entry = replace(topic.entry, partitions=total)
        topic.partitions += self._make_partitions(entry, len(topic.partitions))
        topic.entry = entry
        if self._groups is not None:
            self._groups.topics_changed()

    def set_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        entry = replace(topic.entry, configs=dict(configs))
        self.catalog.commit([put_topic(entry)], self.clock.now_ms(), makes_room=True)
        topic.entry = entry
        self._use_configs(topic)

    def set_broker_configs(self, node_id: str, configs: Mapping[str, str]) -> None:
        """Topics without values of their own follow at once. No node id: for the whole cluster."""
        change = set_broker_configs(node_id, configs)
        self.catalog.commit([change], self.clock.now_ms(), makes_room=True)
        self.settings = in_force(self.started, self.catalog.broker_configs)
        for topic in self.topics.values():
            self._use_configs(topic)

    def delete_topic(self, topic: Topic) -> None:
        self.catalog.commit([drop_topic(topic.entry)], self.clock.now_ms(), makes_room=True)
        del self.topics[topic.name]
        for partition in topic.partitions:
            self.folder.delete_log(partition.log)
            partition.gone()
        if self._groups is not None:
            self._groups.topic_deleted(topic.name)

    def rights_changed(self) -> None:
        """ACLs are others now: so may be the topics that regular expressions of groups find."""
        if self._groups is not None:
            self._groups.topics_changed()

    def new_producer_id(self) -> int:
        """A producer id nobody had before; reserved in blocks, so that few of them cost a flush."""
        if self._producer_id_next == self._producer_id_end:
            first = self.catalog.next_producer_id
            try:
                self.catalog.commit([reserve_producer_ids(first)], self.clock.now_ms())
            except KafkaError as error:  # told as Apache Kafka does: every client tries again
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error
            self._producer_id_next, self._producer_id_end = first, first + PRODUCER_ID_BLOCK
        self._producer_id_next += 1
        return self._producer_id_next - 1

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def log_config(self, entry: TopicEntry) -> LogConfig:
        """What clients set for all topics does not reach the coordinators' own: it could refuse what they write."""
        is_internal = entry.name in INTERNAL
        defaults = (self.started if is_internal else self.settings).topic_defaults
        configs = {**defaults, **entry.configs}
        config = topic_configs.log_config(configs, self.settings.producer_id_expiration_ms)
        if is_internal:
            return replace(config, max_message_bytes=max(config.max_message_bytes, MESSAGE_BYTES_MAX))
        return config

    async def close(self) -> None:
        """Flushes everything and leaves the folder so that the next start needs no recovery."""
        self.first_use.close()
        if self._groups is not None:
            self._groups.close()
        if self._transactions is not None:
            self._transactions.close()
        if self.audit is not None:
            self.audit.close()
        await self.commits.drain()
        self.commits.close()
        self.folder.close()

    def _use_configs(self, topic: Topic) -> None:
        config = self.log_config(topic.entry)
        for partition in topic.partitions:
            partition.log.config = config

    # -- start-up -----------------------------------------------------------------------------

    def _check_topic_defaults(self) -> None:
        try:
            topic_configs.validate(self.settings.topic_defaults)
        except KafkaError as error:
            raise BadSetting(name="topic_defaults", origin="the settings", reason=error.message) from None

    def _open_security(self) -> None:
        from oncestream.broker.security.authorizer import Authorizer, parse_super_users

        self.authorizer = Authorizer(
            self.catalog,
            parse_super_users(self.settings.super_users),
            allow_if_no_acl=self.settings.allow_if_no_acl,
        )
        if self.settings.audit:
            from oncestream.broker.security.audit import Audit

            self.audit = Audit(self)

    def _open_topics(self) -> None:
        known = {(e.name, i, e.id) for e in self.catalog.topics.values() for i in range(e.partitions)}
        for name, index, topic_id in self.folder.partition_folders():
            if name == METADATA_TOPIC or (name, index, topic_id) in known:
                continue
            was_deleted = topic_id is not None and topic_id in self.catalog.deleted_ids
            if was_deleted or self.folder.is_unused(name, index):  # or never made to the end
                self.folder.remove(name, index)
                continue
            aside = self.folder.set_aside(name, index)
            logger.warning(
                "folder of an unknown topic set aside topic=%s partition=%d to=%s", name, index, aside
            )
        for entry in self.catalog.topics.values():
            try:
                partitions = [self._open_partition(entry, index) for index in range(entry.partitions)]
            except DataFolderUnusable as error:
                if entry.name in INTERNAL or not lacks_room(error.__cause__):
                    raise
                logger.error("topic is left out until the next start topic=%s: %s", entry.name, error)
            else:
                self.topics[entry.name] = Topic(entry, partitions)

    def _make_partitions(self, entry: TopicEntry, first: int) -> list[Partition]:
        """The logs, then the entry in the catalogue; where one fails, nothing is left of any."""
        made: list[Partition] = []
        try:
            for index in range(first, entry.partitions):
                made.append(self._open_partition(entry, index))  # noqa: PERF401 - those before a failure count
            self.catalog.commit([put_topic(entry)], self.clock.now_ms())
        except (DataFolderUnusable, KafkaError) as error:
            for partition in made:
                self.folder.delete_log(partition.log)
            if isinstance(error.__cause__, OSError):
                raise self.folder.room.error_for(f"making {entry.name}", error.__cause__) from error
            raise
        return made

    def _open_partition(self, entry: TopicEntry, index: int) -> Partition:
        log = self.folder.open_log(entry.name, index, entry.id, self.log_config(entry))
        return Partition(entry.name, index, log, self.commits.request if self.durable else None)
