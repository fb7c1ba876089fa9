"""A cluster as a client sees it: brokers, leaders, coordinators, and the connections to them."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from oncestream.client.connection import Connection
from oncestream.client.contact import CONTACT_S, first_contact
from oncestream.client.failures import (
    ConnectionLost,
    ErrorAnswer,
    all_lost,
    has_moved,
    raise_if_error,
)
from oncestream.client.retry import Retry, until_done
from oncestream.client.settings import Address, ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncestream.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from oncestream.wire.schema import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")

TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
IDLE_CONNECTIONS_MAX: Final = 8


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Leader(NamedTuple):
    node: int
    epoch: int


class Cluster:
    """For one thread; `cluster_of` keeps one per thread and process."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._nodes: dict[int, Address] = {}
        self._controller = -1
        self._cluster_id: str | None = None
        self._leaders: dict[TopicPartition, Leader] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._idle: dict[Address, list[Connection]] = {}
        self._features_epoch = -2
        self._transaction_version = 1

    def require_contact(self, timeout_s: float = CONTACT_S) -> None:
        """BrokerUnreachable where no broker answers so soon: later requests wait longer for one that was there."""
        self.give_back(self._learn_features(first_contact(self.settings, timeout_s)))

    @property
    def cluster_id(self) -> str:
        if self._cluster_id is None:
            self.metadata([])
        return self._cluster_id or ""

    @property
    def transaction_version(self) -> int:
        """2 where partitions join a transaction by themselves and every transaction has its epoch; else 1."""
        if self._features_epoch < -1:
            self.metadata([])
        return self._transaction_version

    @property
    def controller(self) -> int:
        """The node that administrative requests go to."""
        if self._controller not in self._nodes:
            self.metadata([])
        return self._controller

    def partitions_of(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has now; UnknownTopic where there is none of that name."""
        return {str(topic.name): len(topic.partitions) for topic in self.metadata(topics)}

    def topics_matching(self, pattern: str) -> list[str]:
        """Names that match the regular expression in whole, sorted; without internal topics."""
        matches = re.compile(pattern).fullmatch
        return sorted(
            topic.name
            for topic in self.metadata(None)
            if topic.name is not None and not topic.is_internal and matches(topic.name)
        )

    def metadata(self, topics: Iterable[str] | None) -> list[MetadataResponseTopic]:
        """What the cluster says now of these topics (None: of all); leaders and nodes are remembered."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        def attempt() -> list[MetadataResponseTopic]:
            told = self.ask_any(request, MetadataResponse)
            self._remember(told)
            for topic in told.topics:
                # Deleted between the list and its details, where all were asked for.
                if wanted is not None:
                    raise_if_error(topic.error_code, topic.name)
            return [topic for topic in told.topics if not topic.error_code]

        return until_done(attempt, self.retry(), ApiKey.METADATA.name)

    def leader_of(self, partition: TopicPartition) -> Leader:
        """Who leads, as far as known; KafkaError while nobody does."""
        found = self._leaders.get(partition)
        if found is None:
            told = self.metadata([partition.topic])
            found = self._leaders.get(partition)
            if found is None:
                exists = any(each.partition_index == partition.partition for each in told[0].partitions)
                code = ErrorCode.LEADER_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise ErrorAnswer(code, partition)
        return found

    def forget_leaders(self, topics: Iterable[str]) -> None:
        """After an answer or a lost connection that says that the leaders have moved."""
        gone = set(topics)
        self._leaders = {each: leader for each, leader in self._leaders.items() if each.topic not in gone}

    def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message,
        answer: type[M],
        check: Callable[[M], object],
        *,
        version_max: int | None = None,
        retry: Retry | None = None,
    ) -> M:
        """Asks the coordinator of a group or transactional id until `check` raises no error that may pass."""

        def attempt() -> M:
            try:
                with self.connection_to(self._coordinator(kind, key)) as connection:
                    told = connection.ask(request, answer, version_max=version_max)
                check(told)
            except (KafkaError, ConnectionLost) as error:
                if has_moved(error):
                    self._coordinators.pop((kind, key), None)
                raise
            return told

        return until_done(attempt, retry or self.retry(), ApiKey(request.__api_key__).name)

    def ask_controller(self, request: Message, answer: type[M], check: Callable[[M], object]) -> M:
        """Asks the node for administrative requests until `check` raises no error that may pass."""

        def attempt() -> M:
            try:
                with self.connection_to(self.controller) as connection:
                    told = connection.ask(request, answer)
                check(told)
            except (KafkaError, ConnectionLost) as error:
                if isinstance(error, ConnectionLost) or error.code is ErrorCode.NOT_CONTROLLER:
                    self._controller = -1
                raise
            return told

        return until_done(attempt, self.retry(), ApiKey(request.__api_key__).name)

    def ask_every_broker(self, request: Message, answer: type[M], check: Callable[[M], object]) -> list[M]:
        """The answers of all brokers, for what each of them knows only a part of."""

        def attempt() -> list[M]:
            self.metadata([])
            answers = []
            for node in sorted(self._nodes):
                with self.connection_to(node) as connection:
                    answers.append(connection.ask(request, answer))
                check(answers[-1])
            return answers

        return until_done(attempt, self.retry(), ApiKey(request.__api_key__).name)

    @contextmanager
    def connection_to(self, node: int) -> Iterator[Connection]:
        """A connection that nobody else uses meanwhile; it is kept for the next one if it is still good."""
        connection = self.take(self.address_of(node))
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self, address: Address) -> Connection:
        """An idle connection or a new one; the caller gives it back."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        return self._learn_features(Connection(address, self.settings))

    def give_back(self, connection: Connection) -> None:
        idle = self._idle.setdefault(connection.address, [])
        if connection.is_reusable and len(idle) < IDLE_CONNECTIONS_MAX:
            idle.append(connection)
        else:
            connection.close()

    def address_of(self, node: int) -> Address:
        if node not in self._nodes:
            self.metadata([])
        if node not in self._nodes:
            raise ConnectionLost(f"node {node}", "the cluster does not know it any more")
        return self._nodes[node]

    def retry(self) -> Retry:
        return Retry(self.settings.api_timeout_ms / 1000)

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def ask_any(self, request: Message, answer: type[M]) -> M:
        """Asks brokers in turn, connected ones first, until one answers."""
        lost: list[ConnectionLost] = []
        for address in self._candidates():
            try:
                connection = self.take(address)
                try:
                    return connection.ask(request, answer)
                finally:
                    self.give_back(connection)
            except ConnectionLost as error:
                lost.append(error)
        raise all_lost(self.settings.bootstrap_servers, lost)

    def _learn_features(self, connection: Connection) -> Connection:
        if connection.features_epoch >= self._features_epoch:
            self._features_epoch = connection.features_epoch
            self._transaction_version = (
                2 if connection.features.get(TRANSACTION_VERSION_FEATURE, 0) >= 2 else 1
            )
        return connection

    def _candidates(self) -> list[Address]:
        connected = [address for address, idle in self._idle.items() if idle]
        known = [*self._nodes.values()]
        random.shuffle(known)
        return list(dict.fromkeys([*connected, *known, *self.settings.bootstrap]))

    def _remember(self, told: MetadataResponse) -> None:
        self._nodes = {broker.node_id: Address(broker.host, broker.port) for broker in told.brokers}
        self._cluster_id, self._controller = told.cluster_id, told.controller_id
        for topic in told.topics:
            for each in topic.partitions:
                where = TopicPartition(str(topic.name), each.partition_index)
                if each.leader_id >= 0 and each.leader_id in self._nodes:
                    self._leaders[where] = Leader(each.leader_id, each.leader_epoch)
                else:
                    self._leaders.pop(where, None)

    def _coordinator(self, kind: CoordinatorKind, key: str) -> int:
        if (kind, key) not in self._coordinators:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            found = self.ask_any(request, FindCoordinatorResponse).coordinators[0]
            raise_if_error(found.error_code, key, found.error_message)
            self._nodes[found.node_id] = Address(found.host, found.port)
            self._coordinators[kind, key] = found.node_id
        return self._coordinators[kind, key]


def cluster_of(settings: ClientSettings) -> Cluster:
    """The cluster of these settings, kept per thread; a forked process starts anew."""
    if getattr(_kept, "pid", None) != os.getpid():
        _kept.pid, _kept.clusters = os.getpid(), {}
    clusters: dict[ClientSettings, Cluster] = _kept.clusters
    if settings not in clusters:
        clusters[settings] = Cluster(settings)
    return clusters[settings]


_kept: Final = threading.local()
