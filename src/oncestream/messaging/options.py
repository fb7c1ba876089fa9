"""The parameters of producers and consumers, in one table: the asyncio variants take the same."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from oncestream.errors import BadSetting
from oncestream.messaging.serializers import Deserializer, Serializer, to_bytes
from oncestream.messaging.settings import ONE_IN_FLIGHT

if TYPE_CHECKING:
    from oncestream.client.topic_partition import TopicPartition
    from oncestream.messaging.consumer import Consumer

# (key, value, number of partitions) -> partition
Partitioner = Callable[[bytes | None, bytes | None, int], int]
OnRebalance = Callable[["Consumer", "list[TopicPartition]"], None]

BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024
FLUSH_MS: Final = 5
SEND_TIMEOUT_S: Final = 60.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
FETCH_BYTES_MAX: Final = 50 * 1024 * 1024
POLL_RECORDS_MAX: Final = 500
_MESSAGE_BYTES: Final = 1_000_000  # librdkafka's message.max.bytes, below which fetch.max.bytes cannot be


class ProducerNames(TypedDict, total=False):
    """The names and types a caller may give; `ProducerOptions` has the defaults and what they mean."""

    name: str | None
    transactional_id: str | None
    transaction_timeout_ms: int
    serializer: Serializer
    key_serializer: Serializer
    partitioner: Partitioner | None
    buffer_bytes_max: int
    flush_ms: float
    ordered: bool
    compression: str
    send_timeout_s: float
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer writes.

    name: its records are numbered under this name, and the numbering goes on after a restart.
    transactional_id: for `transaction()`; a new producer with the same id ends an older one.
    transaction_timeout_ms: a transaction that takes longer is aborted by the broker.
    serializer, key_serializer: from a value or key to bytes.
    partitioner: (key, value, partitions) -> partition; by the key's hash, as Java's producer, if not given.
    buffer_bytes_max: records that wait to be sent; a send that finds it full waits.
    flush_ms: how long a record may wait for others to be sent with it.
    ordered: records of a partition keep their order and come once; False sends them in parallel, and a
        retry may then change their order or write one twice.
    compression: none, gzip, snappy, lz4 or zstd.
    send_timeout_s: how long a send waits for room, or for the topic.
    settings: further settings by librdkafka's names (security.protocol, sasl.mechanism, ...).
    """

    name: str | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    serializer: Serializer = to_bytes
    key_serializer: Serializer = to_bytes
    partitioner: Partitioner | None = None
    buffer_bytes_max: int = BUFFER_BYTES_MAX
    flush_ms: float = FLUSH_MS
    ordered: bool = True
    compression: str = "none"
    send_timeout_s: float = SEND_TIMEOUT_S
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(given: ProducerNames) -> ProducerOptions:
        _check_names(ProducerOptions, given)
        return ProducerOptions(**given)

    def config(self) -> dict[str, Any]:
        """The same in librdkafka's names."""
        if not self.ordered and (self.name or self.transactional_id):
            raise _bad("ordered", "a producer with a name or a transactional id always keeps the order")
        config: dict[str, Any] = {
            "acks": "all",
            "enable.idempotence": self.ordered,
            "partitioner": "murmur2_random",  # as Java's producer and our pipelines
            "queue.buffering.max.kbytes": max(1, self.buffer_bytes_max // 1024),
            "queue.buffering.max.messages": 0,
            "linger.ms": self.flush_ms,
            "compression.type": self.compression,
        }
        if self.name and not self.transactional_id:
            # A record that was given up would be missed by none, once one with a higher number is there.
            config["message.timeout.ms"] = 0
        if self.transactional_id:
            config["transactional.id"] = self.transactional_id
            config["transaction.timeout.ms"] = self.transaction_timeout_ms
        elif self.ordered:
            config |= ONE_IN_FLIGHT
        return config


class ConsumerNames(TypedDict, total=False):
    """The names and types a caller may give; `ConsumerOptions` has the defaults and what they mean."""

    start: Literal["earliest", "latest", "none"]
    commit: Literal["auto", "manual"]
    isolation: Literal["read_committed", "read_uncommitted"]
    deserializer: Deserializer
    key_deserializer: Deserializer
    on_assigned: OnRebalance | None
    on_revoked: OnRebalance | None
    fetch_bytes_max: int
    poll_records_max: int
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer reads.

    start: where a group without a committed position begins; "none" is an error then.
    commit: "auto" commits every few seconds what the program has finished with; "manual" leaves it to
        `commit()` or to a producer's transaction.
    isolation: "read_committed" hides what is not committed.
    deserializer, key_deserializer: from bytes; never called for None.
    on_assigned, on_revoked: called with the consumer and the partitions, inside poll, next or close.
    fetch_bytes_max: size of one answer of the broker.
    poll_records_max: how many records one poll returns at most.
    settings: further settings by librdkafka's names (security.protocol, group.instance.id, ...).
    """

    start: str = "earliest"
    commit: str = "auto"
    isolation: str = "read_committed"
    deserializer: Deserializer = bytes
    key_deserializer: Deserializer = bytes
    on_assigned: OnRebalance | None = None
    on_revoked: OnRebalance | None = None
    fetch_bytes_max: int = FETCH_BYTES_MAX
    poll_records_max: int = POLL_RECORDS_MAX
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(given: ConsumerNames) -> ConsumerOptions:
        _check_names(ConsumerOptions, given)
        return ConsumerOptions(**given)

    @property
    def commits_itself(self) -> bool:
        return self.commit == "auto"

    @property
    def is_incremental(self) -> bool:
        """Whether a rebalance takes and gives single partitions, or all of them at once."""
        strategies = str(self.settings.get("partition.assignment.strategy", ""))
        return self.settings.get("group.protocol") == "consumer" or "cooperative" in strategies

    def config(self, group: str) -> dict[str, Any]:
        """The same in librdkafka's names."""
        _one_of("start", self.start, ("earliest", "latest", "none"))
        _one_of("commit", self.commit, ("auto", "manual"))
        _one_of("isolation", self.isolation, ("read_committed", "read_uncommitted"))
        if not group:
            raise _bad("group", "it is empty")
        if self.poll_records_max < 1:
            raise _bad("poll_records_max", "it must be 1 or more")
        if self.fetch_bytes_max < _MESSAGE_BYTES:
            raise _bad("fetch_bytes_max", f"it must be {_MESSAGE_BYTES} or more")
        return {
            "group.id": group,
            "auto.offset.reset": "error" if self.start == "none" else self.start,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": self.isolation,
            "fetch.max.bytes": self.fetch_bytes_max,
            "receive.message.max.bytes": max(100_000_000, self.fetch_bytes_max + 512),
        }


def _check_names(kind: type[ProducerOptions | ConsumerOptions], given: Mapping[str, Any]) -> None:
    """BadSetting that names the nearest parameter where one is unknown."""
    known = [each.name for each in fields(kind)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise _bad(name, f"there is no such parameter{f'; did you mean {near[0]}?' if near else ''}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise _bad(name, f"{value!r} is none of {', '.join(allowed)}")


def _bad(name: str, reason: str) -> BadSetting:
    return BadSetting(name=name, origin="the parameters", reason=reason)
