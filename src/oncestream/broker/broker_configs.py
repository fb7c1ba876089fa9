"""The broker's own configurations, by Kafka's names: where each value comes from, and which ones clients change.

A value stands on four levels, the first one holds: given to this broker by a client, given to the cluster by a
client, a setting of the start, the default. What clients give is kept in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import dropwhile
from typing import Final, NamedTuple

from oncestream.broker import topic_configs
from oncestream.broker.config_entries import ConfigEntry, ConfigSource, Synonym
from oncestream.broker.kafka_settings import kafka_settings
from oncestream.broker.listeners import with_protocols
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.topic_configs import INT_MAX, ConfigType, whole
from oncestream.wire.error_codes import ErrorCode, KafkaError

ByNode = Mapping[str, Mapping[str, str]]  # what clients gave each node; "": the cluster

CLUSTER: Final = ""
_CONNECTIONS: Final = "max.connections"
_PRODUCER_IDS: Final = "producer.id.expiration.ms"


class BrokerConfigs:
    """The configurations of a broker that was started with these settings. What clients give it is seen at once."""

    def __init__(self, started: BrokerSettings, given: ByNode) -> None:
        self._node_id = str(started.node_id)
        self._given = given
        self._types: dict[str, ConfigType] = {}
        self._started: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        for name, kind, value in kafka_settings():
            self._put(name, kind, value, value)
        defaults = BrokerSettings()
        for setting in _FROM_SETTINGS:
            default = None if setting.name in _OF_EACH_BROKER else setting.read(defaults)
            self._put(setting.name, setting.type, setting.read(started), default)
        for name, spec in _TOPIC_DEFAULTS.items():
            default = None if name in _UNSET else spec.default
            self._put(name, spec.type, started.topic_defaults.get(spec.name, default), default)

    def entries(self) -> list[ConfigEntry]:
        """All that this broker has."""
        return [self._entry(name, self.synonyms(name)) for name in self._types]

    def cluster_entries(self) -> list[ConfigEntry]:
        """What the cluster has from clients."""
        level = ConfigSource.DYNAMIC_DEFAULT
        return [
            self._entry(name, [Synonym(name, value, level)]) for name, value in self._of_cluster().items()
        ]

    def synonyms(self, name: str) -> list[Synonym]:
        """The values that stand on the four levels, the one that holds first; none where it is not set."""
        levels = (
            (ConfigSource.DYNAMIC_BROKER, self._given.get(self._node_id, {})),
            (ConfigSource.DYNAMIC_DEFAULT, self._of_cluster()),
            (ConfigSource.STATIC_BROKER, self._started),
            (ConfigSource.DEFAULT, self._defaults),
        )
        names = _ALIASES.get(name, (name,))
        found = (
            Synonym(each, values[each], level) for level, values in levels for each in names if each in values
        )
        return list(dropwhile(lambda synonym: synonym.name != name, found))

    def _put(self, name: str, kind: ConfigType, value: str | None, default: str | None) -> None:
        self._types[name] = kind
        if default is not None:
            self._defaults[name] = default
        if value is not None and value != default:
            self._started[name] = value

    def _of_cluster(self) -> Mapping[str, str]:
        return {**_OF_NEW_CLUSTER, **self._given.get(CLUSTER, {})}

    def _entry(self, name: str, synonyms: list[Synonym]) -> ConfigEntry:
        value, source = synonyms[0][1:] if synonyms else (None, ConfigSource.DEFAULT)
        doc = _CHANGEABLE if name in DYNAMIC else _FIXED
        return ConfigEntry(name, value, source, name not in DYNAMIC, self._types[name], synonyms, doc)


def validate(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Refuses what cannot change while the broker runs, and values out of bounds, as Apache Kafka does."""
    fixed = sorted(name for name in configs if name not in DYNAMIC)
    if fixed:
        raise _wrong(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    checked = {}
    for name, value in configs.items():
        assert value is not None
        reason = DYNAMIC[name](value)
        if reason is not None:
            raise _wrong(f"Invalid value {value} for configuration {name}: {reason}")
        checked[name] = value
    return checked


def in_force(started: BrokerSettings, given: ByNode) -> BrokerSettings:
    """The settings of the start under what clients gave the cluster and this broker."""
    now = {**given.get(CLUSTER, {}), **given.get(str(started.node_id), {})}
    defaults = {spec.name: now[name] for name, spec in _TOPIC_DEFAULTS.items() if name in now}
    return replace(
        started,
        topic_defaults={**started.topic_defaults, **defaults},
        connections_max=int(now.get(_CONNECTIONS, started.connections_max)),
        producer_id_expiration_ms=int(now.get(_PRODUCER_IDS, started.producer_id_expiration_ms)),
    )


def _retention(value: str) -> str | None:
    reason = topic_configs.TABLE["retention.ms"].check(value)
    return "must be -1 (no limit) or at least 1" if reason is None and int(value) == 0 else reason


def _wrong(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _flag(value: bool) -> str:
    return str(value).lower()


def _mechanisms(settings: BrokerSettings) -> str:
    return ",".join(part.strip() for part in settings.sasl_mechanisms.split(",") if part.strip())


class _FromSetting(NamedTuple):
    name: str
    type: ConfigType
    read: Callable[[BrokerSettings], str | None]


_CHANGEABLE: Final = "can be changed while the broker runs; see docs/settings.md"
_FIXED: Final = "fixed when the broker starts; see docs/settings.md"
_AUTHORIZER: Final = "oncestream.broker.security.authorizer.Authorizer"

_TOPIC_DEFAULTS: Final = {
    spec.synonym: spec for spec in topic_configs.TABLE.values() if spec.synonym is not None
}
# Kafka keeps these unset; another setting of the same meaning has the default.
_UNSET: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", "log.flush.interval.ms"})
_ROLL: Final = ("log.roll.ms", "log.roll.hours")
_JITTER: Final = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ALIASES: Final = {
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
    **dict.fromkeys(_RETENTION, _RETENTION),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
# A new cluster of Apache Kafka 4.3 is given this when its storage is formatted.
_OF_NEW_CLUSTER: Final = {"min.insync.replicas": "1"}
# Whoever starts a broker says these: they have no default.
_OF_EACH_BROKER: Final = frozenset({"node.id", "process.roles", "log.dirs", "advertised.listeners"})

# What clients can change while the broker runs, and what is wrong with a value.
DYNAMIC: Final[Mapping[str, Callable[[str], str | None]]] = {
    **{name: spec.check for name, spec in _TOPIC_DEFAULTS.items()},
    "log.retention.ms": _retention,
    _CONNECTIONS: whole("INT", 1, INT_MAX),  # with none, no client could take it back
    _PRODUCER_IDS: whole("INT", 1, INT_MAX),
}

_FROM_SETTINGS: Final = tuple(
    _FromSetting(*row)
    for row in (
        ("node.id", ConfigType.INT, lambda s: str(s.node_id)),
        ("broker.id", ConfigType.INT, lambda s: str(s.node_id)),
        ("process.roles", ConfigType.LIST, lambda _: "broker,controller"),
        ("log.dirs", ConfigType.LIST, lambda s: str(s.data)),
        ("log.dir", ConfigType.LIST, lambda s: str(s.data)),
        ("listeners", ConfigType.LIST, lambda s: with_protocols(s.listen, s)),
        ("advertised.listeners", ConfigType.LIST, lambda s: with_protocols(s.advertise or s.listen, s)),
        ("authorizer.class.name", ConfigType.STRING, lambda s: _AUTHORIZER if s.authorization else ""),
        ("auto.create.topics.enable", ConfigType.BOOLEAN, lambda s: _flag(s.auto_create_topics)),
        ("num.partitions", ConfigType.INT, lambda s: str(s.default_partitions)),
        (_CONNECTIONS, ConfigType.INT, lambda s: str(s.connections_max)),
        ("connections.max.idle.ms", ConfigType.LONG, lambda s: str(s.idle_ms_max)),
        ("socket.request.max.bytes", ConfigType.INT, lambda s: str(s.frame_bytes_max)),
        ("queued.max.request.bytes", ConfigType.LONG, lambda s: str(s.in_flight_bytes_max)),
        ("fetch.max.bytes", ConfigType.INT, lambda s: str(s.fetch_bytes_max)),
        ("log.retention.check.interval.ms", ConfigType.LONG, lambda s: str(s.housekeeping_ms)),
        ("log.cleaner.backoff.ms", ConfigType.LONG, lambda s: str(s.housekeeping_ms)),
        (_PRODUCER_IDS, ConfigType.INT, lambda s: str(s.producer_id_expiration_ms)),
        (
            "group.initial.rebalance.delay.ms",
            ConfigType.INT,
            lambda s: str(s.group_initial_rebalance_delay_ms),
        ),
        ("group.min.session.timeout.ms", ConfigType.INT, lambda s: str(s.group_session_timeout_ms_min)),
        ("group.max.session.timeout.ms", ConfigType.INT, lambda s: str(s.group_session_timeout_ms_max)),
        ("group.max.size", ConfigType.INT, lambda s: str(s.group_size_max)),
        ("group.consumer.max.size", ConfigType.INT, lambda s: str(s.group_size_max)),
        (
            "group.consumer.session.timeout.ms",
            ConfigType.INT,
            lambda s: str(s.consumer_group_session_timeout_ms),
        ),
        (
            "group.consumer.heartbeat.interval.ms",
            ConfigType.INT,
            lambda s: str(s.consumer_group_heartbeat_interval_ms),
        ),
        ("offsets.topic.num.partitions", ConfigType.INT, lambda s: str(s.offsets_partitions)),
        ("offsets.retention.minutes", ConfigType.INT, lambda s: str(s.offsets_retention_ms // 60_000)),
        ("offsets.retention.check.interval.ms", ConfigType.LONG, lambda s: str(s.housekeeping_ms)),
        ("offset.metadata.max.bytes", ConfigType.INT, lambda s: str(s.offset_metadata_bytes_max)),
        ("transaction.max.timeout.ms", ConfigType.INT, lambda s: str(s.transaction_timeout_ms_max)),
        ("transactional.id.expiration.ms", ConfigType.INT, lambda s: str(s.transactional_id_expiration_ms)),
        ("transaction.state.log.num.partitions", ConfigType.INT, lambda s: str(s.transaction_partitions)),
        ("sasl.enabled.mechanisms", ConfigType.LIST, _mechanisms),
        ("ssl.client.auth", ConfigType.STRING, lambda s: str(s.tls_client_auth)),
        ("ssl.keystore.location", ConfigType.STRING, lambda s: s.tls_certificate or None),
        ("ssl.truststore.location", ConfigType.STRING, lambda s: s.tls_client_ca or None),
    )
)
