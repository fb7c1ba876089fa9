"""Topic configurations: names, types, bounds and defaults as Apache Kafka 4.3 has them, in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from oncestream.records.compression import Codec
from oncestream.storage.config import LogConfig
from oncestream.wire.error_codes import ErrorCode, KafkaError

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
COMPRESSIONS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class ConfigType(IntEnum):
    """The type codes of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class TopicConfig(NamedTuple):
    """One configuration: how to check it, what it is when nobody set it, and its broker-wide name."""

    name: str
    type: ConfigType
    default: str
    check: Callable[[str], str | None]
    synonym: str | None
    doc: str


def validate(configs: Mapping[str, str | None]) -> None:
    """Refuses unknown names and values out of bounds, with the error a Kafka client knows."""
    for name, value in configs.items():
        spec = TABLE.get(name)
        if spec is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config: {name}")
        reason = spec.check(value)
        if reason is not None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {reason}"
            )
    _check_lags(configs)


def log_config(configs: Mapping[str, str], producer_id_expiration_ms: int) -> LogConfig:
    """What the storage needs of a topic's configurations (complete: defaults filled in)."""

    def number(name: str) -> int:
        return int(configs.get(name) or TABLE[name].default)

    def text(name: str) -> str:
        return configs.get(name, TABLE[name].default)

    policies = split_list(text("cleanup.policy"))
    compression = text("compression.type")
    return LogConfig(
        segment_bytes=int(configs.get("internal.segment.bytes") or number("segment.bytes")),
        segment_ms=number("segment.ms"),
        segment_index_bytes=number("segment.index.bytes"),
        index_interval_bytes=number("index.interval.bytes"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        cleanup_delete="delete" in policies,
        cleanup_compact="compact" in policies,
        delete_retention_ms=number("delete.retention.ms"),
        min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        max_message_bytes=number("max.message.bytes"),
        compression=None if compression == "producer" else _CODECS[compression],
        log_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        producer_id_expiration_ms=producer_id_expiration_ms,
    )


def split_list(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _check_lags(configs: Mapping[str, str | None]) -> None:
    low = int(configs.get("min.compaction.lag.ms") or 0)
    high = int(configs.get("max.compaction.lag.ms") or LONG_MAX)
    if low > high:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms must not be larger than max.compaction.lag.ms ({low} > {high})",
        )


_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")  # Python's int() takes more than Java's


def whole(kind: str, low: int, high: int) -> Callable[[str], str | None]:
    """A check for whole numbers: what is wrong with a value. `high` is the largest that the type can hold."""

    def check(value: str) -> str | None:
        if not _WHOLE.fullmatch(value.strip()) or (number := int(value)) > high:
            return f"Not a number of type {kind}"
        return f"Value must be at least {low}" if number < low else None

    return check


def _ratio(value: str) -> str | None:
    try:
        number = float(value)
    except ValueError:
        return "Not a number of type DOUBLE"
    if number > 1:
        return "Value must be no more than 1"
    return None if number >= 0 else "Value must be at least 0"


def _flag(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "Expected value to be either true or false"


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    return lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}"


def _policies(value: str) -> str | None:
    good = all(part in ("compact", "delete") for part in split_list(value))
    return None if good else "String must be one of: compact, delete"


def _any(_value: str) -> str | None:
    return None


def _long(name: str, default: int, low: int, synonym: str | None, doc: str) -> TopicConfig:
    return TopicConfig(name, ConfigType.LONG, str(default), whole("LONG", low, LONG_MAX), synonym, doc)


def _int(name: str, default: int, low: int, synonym: str | None, doc: str) -> TopicConfig:
    return TopicConfig(name, ConfigType.INT, str(default), whole("INT", low, INT_MAX), synonym, doc)


def _boolean(name: str, synonym: str | None, doc: str) -> TopicConfig:
    return TopicConfig(name, ConfigType.BOOLEAN, "false", _flag, synonym, doc)


_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

_LEVEL: Final = "kept for clients that set it; batches are compressed at the codec's default level"
_CLUSTER: Final = "has no effect on a single node"
_TIERED: Final = "has no effect: there is no tiered storage"
_FLUSH: Final = "has no effect: the broker's durability setting decides when data is flushed"

TABLE: Final[Mapping[str, TopicConfig]] = {
    spec.name: spec
    for spec in (
        TopicConfig(
            "cleanup.policy",
            ConfigType.LIST,
            "delete",
            _policies,
            "log.cleanup.policy",
            "delete old segments, compact by key, or both",
        ),
        TopicConfig(
            "compression.type",
            ConfigType.STRING,
            "producer",
            _one_of(*COMPRESSIONS),
            "compression.type",
            "producer keeps what the client chose; any other codec is applied by the broker",
        ),
        _int("compression.gzip.level", -1, -1, "compression.gzip.level", _LEVEL),
        _int("compression.lz4.level", 9, 1, "compression.lz4.level", _LEVEL),
        _int("compression.zstd.level", 3, -131072, "compression.zstd.level", _LEVEL),
        _long(
            "delete.retention.ms",
            86_400_000,
            0,
            "log.cleaner.delete.retention.ms",
            "how long a tombstone stays in a compacted topic",
        ),
        _long(
            "file.delete.delay.ms",
            60_000,
            0,
            "log.segment.delete.delay.ms",
            "how long a deleted segment's file may stay on disk",
        ),
        _long("flush.messages", LONG_MAX, 1, "log.flush.interval.messages", _FLUSH),
        _long("flush.ms", LONG_MAX, 0, "log.flush.interval.ms", _FLUSH),
        TopicConfig("follower.replication.throttled.replicas", ConfigType.LIST, "", _any, None, _CLUSTER),
        _int("index.interval.bytes", 4096, 0, "log.index.interval.bytes", "bytes between two index entries"),
        TopicConfig("leader.replication.throttled.replicas", ConfigType.LIST, "", _any, None, _CLUSTER),
        _long("local.retention.bytes", -2, -2, "log.local.retention.bytes", _TIERED),
        _long("local.retention.ms", -2, -2, "log.local.retention.ms", _TIERED),
        _long(
            "max.compaction.lag.ms",
            LONG_MAX,
            1,
            "log.cleaner.max.compaction.lag.ms",
            "a record older than this makes the log eligible for compaction",
        ),
        _int(
            "max.message.bytes", 1_048_588, 0, "message.max.bytes", "size of the largest record batch taken"
        ),
        _long(
            "message.timestamp.after.max.ms",
            3_600_000,
            0,
            "log.message.timestamp.after.max.ms",
            "how far a record's timestamp may lie ahead of the broker's clock",
        ),
        _long(
            "message.timestamp.before.max.ms",
            LONG_MAX,
            0,
            "log.message.timestamp.before.max.ms",
            "how far a record's timestamp may lie behind the broker's clock",
        ),
        TopicConfig(
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "log.message.timestamp.type",
            "whose clock stamps a record: the producer's or the broker's",
        ),
        TopicConfig(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            "0.5",
            _ratio,
            "log.cleaner.min.cleanable.ratio",
            "share of uncompacted bytes that starts a compaction",
        ),
        _long(
            "min.compaction.lag.ms",
            0,
            0,
            "log.cleaner.min.compaction.lag.ms",
            "a record younger than this is not compacted away",
        ),
        _int("min.insync.replicas", 1, 1, "min.insync.replicas", _CLUSTER),
        _boolean("preallocate", "log.preallocate", "has no effect: files grow as they are written"),
        _boolean("remote.log.copy.disable", None, _TIERED),
        _boolean("remote.log.delete.on.disable", None, _TIERED),
        _boolean("remote.storage.enable", None, _TIERED),
        _long("retention.bytes", -1, -1, "log.retention.bytes", "size of a partition's log; -1: no limit"),
        _long("retention.ms", 604_800_000, -1, "log.retention.ms", "age of a record; -1: kept for ever"),
        _int("segment.bytes", 1_073_741_824, 1_048_576, "log.segment.bytes", "size at which a segment ends"),
        _int(
            "segment.index.bytes",
            10_485_760,
            4,
            "log.index.size.max.bytes",
            "size of a segment's index; a full one ends the segment",
        ),
        _long("segment.jitter.ms", 0, 0, "log.roll.jitter.ms", _CLUSTER),
        _long("segment.ms", 604_800_000, 1, "log.roll.ms", "age at which a segment ends"),
        _boolean("unclean.leader.election.enable", "unclean.leader.election.enable", _CLUSTER),
        # Kafka's tests and ours use it for small segments; DescribeConfigs shows it only where it is set.
        _int("internal.segment.bytes", 1_073_741_824, 14, None, "segment.bytes without its lower bound"),
    )
}
HIDDEN: Final = frozenset({"internal.segment.bytes"})
