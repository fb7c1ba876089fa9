"""What all topics of a stream share, checked, and the Kafka configurations that it comes to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final, TypedDict

from oncestream.errors import BadStreamAttribute
from oncestream.streams.expressions import check_expression

TTL_S: Final = 604_800
PARTITIONS_MAX: Final = 10_000
LONG_MAX: Final = 2**63 - 1
REPLICAS_MAX: Final = 2**15 - 1
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd", "producer")
TIMESTAMP_TYPES: Final = {"create": "CreateTime", "append": "LogAppendTime"}
PERMISSIONS: Final = ("produce", "consume", "topic", "copy", "admin")

SEGMENT_MS_MAX: Final = 604_800_000
SEGMENT_MS_MIN: Final = 1_000
SEGMENTS_PER_TTL: Final = 10
# Configurations that the stream decides on; one that `topic_configs` leaves out has the broker's default.
GOVERNED: Final = (
    "retention.ms",
    "segment.ms",
    "compression.type",
    "message.timestamp.type",
    "cleanup.policy",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
)


class AttributeNames(TypedDict, total=False):
    """The names and types a caller may give; `StreamAttributes` has the defaults and what they mean."""

    ttl_s: int
    default_partitions: int
    auto_create: bool
    compression: str
    timestamp_type: str
    compact: bool
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int | None
    delete_lag_ms: int
    replicas: int | None
    produce: str
    consume: str
    topic: str
    copy: str
    admin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAttributes:
    """The attributes of a stream.

    ttl_s: a record is deleted when it is older; 0 = never.
    default_partitions: of a topic made without a number.
    auto_create: whether a topic is made when somebody first writes to it or reads it.
    compression: producer (as it comes), or none, gzip, snappy, lz4, zstd: what the broker stores.
    timestamp_type: create (the producer's clock) or append (the broker's).
    compact: whether only the newest record of each key is kept; with a ttl, older ones still go.
    min_compaction_lag_ms, max_compaction_lag_ms (None: no limit): how long a record surely stays, or may stay,
    before compaction. delete_lag_ms: how long a tombstone stays.
    replicas: copies of each partition; None: as many as the cluster makes by default.
    produce, consume, topic, copy, admin: who may; `u:alice|u:bob`, `p` for everyone, or nobody.
    """

    ttl_s: int = TTL_S
    default_partitions: int = 1
    auto_create: bool = True
    compression: str = "producer"
    timestamp_type: str = "create"
    compact: bool = False
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None
    delete_lag_ms: int = 86_400_000
    replicas: int | None = None
    produce: str = ""
    consume: str = ""
    topic: str = ""
    copy: str = ""
    admin: str = ""

    def __post_init__(self) -> None:
        _check_whole("ttl_s", self.ttl_s, 0, LONG_MAX // 1000)
        _check_whole("default_partitions", self.default_partitions, 1, PARTITIONS_MAX)
        _check_whole("min_compaction_lag_ms", self.min_compaction_lag_ms, 0, LONG_MAX)
        _check_whole("delete_lag_ms", self.delete_lag_ms, 0, LONG_MAX)
        if self.max_compaction_lag_ms is not None:
            _check_whole("max_compaction_lag_ms", self.max_compaction_lag_ms, 1, LONG_MAX)
            if self.max_compaction_lag_ms < self.min_compaction_lag_ms:
                raise _bad("max_compaction_lag_ms", self.max_compaction_lag_ms, "it is below the minimum")
        if self.replicas is not None:
            _check_whole("replicas", self.replicas, 1, REPLICAS_MAX)
        _check_one_of("compression", self.compression, COMPRESSIONS)
        _check_one_of("timestamp_type", self.timestamp_type, tuple(TIMESTAMP_TYPES))
        for name in ("auto_create", "compact"):
            if not isinstance(getattr(self, name), bool):
                raise _bad(name, getattr(self, name), "it is neither True nor False")
        for name in PERMISSIONS:
            check_expression(name, getattr(self, name))

    def replaced(self, given: AttributeNames) -> StreamAttributes:
        """The same with those given instead."""
        return replace(self, **given)

    def permissions(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in PERMISSIONS}

    def as_dict(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def topic_configs(self) -> dict[str, str]:
        """What is set on every topic of the stream, by Kafka's names."""
        configs = {
            "retention.ms": str(self.ttl_s * 1000 if self.ttl_s else -1),
            "compression.type": "uncompressed" if self.compression == "none" else self.compression,
            "message.timestamp.type": TIMESTAMP_TYPES[self.timestamp_type],
            "cleanup.policy": ("compact,delete" if self.ttl_s else "compact") if self.compact else "delete",
        }
        if self.ttl_s:
            # Whole segments are deleted, by their youngest record: short ones keep close to the ttl.
            segment_ms = max(SEGMENT_MS_MIN, self.ttl_s * 1000 // SEGMENTS_PER_TTL)
            configs["segment.ms"] = str(min(SEGMENT_MS_MAX, segment_ms))
        if self.compact:
            configs["min.compaction.lag.ms"] = str(self.min_compaction_lag_ms)
            configs["delete.retention.ms"] = str(self.delete_lag_ms)
            if self.max_compaction_lag_ms is not None:
                configs["max.compaction.lag.ms"] = str(self.max_compaction_lag_ms)
        return configs

    def config_changes(self) -> dict[str, str | None]:
        """The same as a change of a topic that may have others: None is the broker's default."""
        configs = self.topic_configs()
        return {name: configs.get(name) for name in GOVERNED}


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(name, value, "it is not a whole number")
    if not low <= value <= high:
        raise _bad(name, value, f"it is not between {low} and {high}")


def _check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise _bad(name, value, f"it is none of {', '.join(allowed)}")


def _bad(name: str, value: object, reason: str) -> BadStreamAttribute:
    return BadStreamAttribute(name=name, value=value, reason=reason)
