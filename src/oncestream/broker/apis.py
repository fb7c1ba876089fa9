"""Which APIs the broker serves, in which versions, and by which handler. ApiVersions is made from this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.outbox import Chunk
from oncestream.wire.api import ApiKey, response_header_version
from oncestream.wire.schema import Message

# A message; chunks already framed (Fetch); None where no answer is owed (acks=0).
Answer = Message | list[Chunk] | None
Handler = Callable[[Any, Call], Answer | Later | Awaitable[Answer]]


class Api:
    """One served API. Its handler and its messages are imported when the first request comes."""

    __slots__ = ("_handler", "_request", "answer_tag_bytes", "key", "name", "version_max", "version_min")

    def __init__(self, key: ApiKey, version_min: int, version_max: int) -> None:
        self.key = key
        self.name = key.name.lower()
        self.version_min = version_min
        self.version_max = version_max
        self.answer_tag_bytes = [response_header_version(key, version) for version in range(version_max + 1)]
        self._handler: Handler | None = None
        self._request: type[Message] | None = None

    @property
    def handler(self) -> Handler:
        if self._handler is None:
            self._handler = import_module(f"oncestream.broker.handlers.{self.name}").handle
        return self._handler

    @property
    def request(self) -> type[Message]:
        if self._request is None:
            module = import_module(f"oncestream.wire.messages.{self.name}")
            self._request = getattr(module, f"{self.name.title().replace('_', '')}Request")
        return self._request


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(
            ApiKey.PRODUCE, 0, 13
        ),  # 0-2 only so that old librdkafka keeps its compression; refused when used
        Api(ApiKey.FETCH, 4, 18),
        Api(ApiKey.LIST_OFFSETS, 1, 11),
        Api(ApiKey.METADATA, 0, 13),
        Api(ApiKey.OFFSET_COMMIT, 2, 10),
        Api(ApiKey.OFFSET_FETCH, 1, 10),
        Api(ApiKey.FIND_COORDINATOR, 0, 6),
        Api(ApiKey.JOIN_GROUP, 0, 9),
        Api(ApiKey.HEARTBEAT, 0, 4),
        Api(ApiKey.LEAVE_GROUP, 0, 5),
        Api(ApiKey.SYNC_GROUP, 0, 5),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6),
        Api(ApiKey.LIST_GROUPS, 0, 5),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1),
        Api(ApiKey.API_VERSIONS, 0, 4),
        Api(ApiKey.CREATE_TOPICS, 2, 7),
        Api(ApiKey.DELETE_TOPICS, 1, 6),
        Api(ApiKey.DELETE_RECORDS, 0, 2),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        Api(ApiKey.END_TXN, 0, 5),
        Api(ApiKey.WRITE_TXN_MARKERS, 1, 2),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2),
        Api(ApiKey.UPDATE_FEATURES, 0, 2),
        Api(ApiKey.DESCRIBE_ACLS, 1, 3),
        Api(ApiKey.CREATE_ACLS, 1, 3),
        Api(ApiKey.DELETE_ACLS, 1, 3),
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4),
        Api(ApiKey.ALTER_CONFIGS, 0, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3),
        Api(ApiKey.DELETE_GROUPS, 0, 2),
        Api(ApiKey.ELECT_LEADERS, 0, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
        Api(ApiKey.OFFSET_DELETE, 0, 0),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
    )
}
