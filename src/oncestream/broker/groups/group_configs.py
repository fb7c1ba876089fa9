"""Configurations of single groups: what the consumer protocol (KIP-848) tells their members to keep to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from oncestream.broker.settings import BrokerSettings
from oncestream.broker.topic_configs import INT_MAX, whole
from oncestream.wire.error_codes import ErrorCode, KafkaError

GROUPS_MAX: Final = 10_000  # that have any

Configs = Mapping[str, str]

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


class GroupConfig(NamedTuple):
    """One configuration: the setting that holds where nobody set it, and Apache Kafka's bounds."""

    setting: str
    low: int
    high: int
    doc: str

    def default(self, settings: BrokerSettings) -> int:
        found = getattr(settings, self.setting)
        assert isinstance(found, int)
        return found


TABLE: Final = {
    HEARTBEAT_INTERVAL: GroupConfig(
        "consumer_group_heartbeat_interval_ms", 5_000, 15_000, "how often its members send heartbeats"
    ),
    SESSION_TIMEOUT: GroupConfig(
        "consumer_group_session_timeout_ms",
        45_000,
        60_000,
        "without a heartbeat for this long a member is out",
    ),
}


def value_of(name: str, configs: Configs, settings: BrokerSettings) -> int:
    """What holds for a group that has these configurations."""
    given = configs.get(name)
    return TABLE[name].default(settings) if given is None else int(given)


def validate(configs: Mapping[str, str | None], settings: BrokerSettings) -> dict[str, str]:
    """The configurations, if they are known, within their bounds, and fit each other."""
    checked = {name: _checked(name, value, settings) for name, value in configs.items()}
    session_ms, interval_ms = (
        value_of(name, checked, settings) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
    )
    if checked and session_ms <= interval_ms:
        raise _wrong(f"{SESSION_TIMEOUT} {session_ms} must be above {HEARTBEAT_INTERVAL} {interval_ms}")
    return checked


def _checked(name: str, value: str | None, settings: BrokerSettings) -> str:
    spec = TABLE.get(name)
    if spec is None:
        raise _wrong(f"Unknown group config name: {name}")
    if value is None:
        raise _wrong(f"Null value not supported for group config: {name}")
    default = spec.default(settings)
    low, high = min(spec.low, default), max(spec.high, default)
    reason = whole("INT", low, INT_MAX)(value)
    if reason is None and int(value) > high:
        reason = f"Value must be no more than {high}"
    if reason is not None:
        raise _wrong(f"Invalid value {value} for configuration {name}: {reason}")
    return value.strip()


def _wrong(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
