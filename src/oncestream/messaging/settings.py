"""How a producer or consumer reaches its cluster: librdkafka's settings, and those of our own client."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings, servers_or_default
from oncestream.errors import BadClientSetting
from oncestream.messaging.failures import Faults

T = TypeVar("T")

ORIGIN: Final = "settings="
# librdkafka repeats a line with every try to connect: its lines go to the log of a program that keeps one, and to
# nobody's terminal. `Faults` tells that the broker is away, once.
LOG: Final = logging.getLogger("oncestream.librdkafka")
LOG.addHandler(logging.NullHandler())

# What a parameter says is not said a second time in `settings`.
PARAMETERS: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "metadata.broker.list": "bootstrap_servers",
    "transactional.id": "transactional_id",
    "partitioner": "partitioner",
    "queue.buffering.max.kbytes": "buffer_bytes_max",
    "queue.buffering.max.ms": "flush_ms",
    "linger.ms": "flush_ms",
    "compression.codec": "compression",
    "compression.type": "compression",
    "group.id": "group",
    "auto.offset.reset": "start",
    "enable.auto.commit": "commit",
    "enable.auto.offset.store": "commit",
    "auto.commit.interval.ms": "commit",
    "isolation.level": "isolation",
    "fetch.max.bytes": "fetch_bytes_max",
    "on_delivery": "on_delivery of send()",
    "on_commit": "commit",
}
# The part of them that our own client needs to look up streams.
_SHARED: Final = re.compile(
    r"security\.protocol|sasl\.(mechanisms?|username|password)"
    r"|ssl\.(ca|certificate|key)\.location|ssl\.key\.password|ssl\.endpoint\.identification\.algorithm"
)
_SECRET: Final = re.compile(r"password|secret|\.pem$|token|jaas")

# For an idempotent producer without transactions. With several requests in flight librdkafka (2.16, its issue 4953)
# takes a new epoch for all partitions when one request fails and the next come out of order: what other partitions
# have written but not been answered yet is then written twice. In transactions such a bump aborts.
ONE_IN_FLIGHT: Final[Mapping[str, Any]] = {"max.in.flight.requests.per.connection": 1}


@dataclass(frozen=True, slots=True)
class Access:
    """Where the cluster is and how to log in; never shows a secret."""

    servers: str
    settings: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def of(bootstrap_servers: str | None, settings: Mapping[str, Any]) -> Access:
        for name in settings:
            if name in PARAMETERS:
                raise BadClientSetting(
                    name=name, origin=ORIGIN, reason=f"the parameter {PARAMETERS[name]} says that"
                )
        return Access(servers_or_default(bootstrap_servers), settings)

    def faults(self) -> Faults:
        mechanism = self.settings.get("sasl.mechanisms") or self.settings.get("sasl.mechanism") or "TLS"
        return Faults(self.servers, str(mechanism))

    def cluster(self) -> Cluster:
        """Our own client of the same cluster, for what librdkafka does not know: streams."""
        shared = {name: str(value) for name, value in self.settings.items() if _SHARED.fullmatch(name)}
        return Cluster(ClientSettings.of(self.servers, shared))

    def build(self, kind: type[T], faults: Faults, own: Mapping[str, Any]) -> T:
        """A client of librdkafka; a setting that it refuses is told without its secrets."""
        config = {
            "bootstrap.servers": self.servers,
            "log.connection.close": False,
            # A librdkafka that re-bootstraps may wait for ever for the old coordinator (its issue 5511).
            "metadata.recovery.strategy": "none",
            **own,
            **self.settings,
            "error_cb": faults.notice,
            "logger": LOG,
        }
        try:
            return kind(config)  # type: ignore[call-arg]
        except KafkaException as error:
            reason = self._without_secrets(error.args[0].str())
            named = re.search(r'property:? "([^"]+)"', reason)
            raise BadClientSetting(
                name=named[1] if named else "of librdkafka", origin=ORIGIN, reason=reason
            ) from None

    def _without_secrets(self, text: str) -> str:
        for name, value in self.settings.items():
            if _SECRET.search(name) and str(value):
                text = text.replace(str(value), "***")
        return text
