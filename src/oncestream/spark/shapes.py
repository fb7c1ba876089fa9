"""What a writer must know of a topic: how many partitions it has and which records it takes."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.configs import describe_configs
from oncestream.errors import NotAuthorized, UnknownTopic

KEPT_S: Final = 30.0
MESSAGE_BYTES_MAX_DEFAULT: Final = 1_048_588
_MESSAGE_BYTES_MAX: Final = "max.message.bytes"
_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"
TIME_LIMITS: Final = f"{_BEFORE}, {_AFTER}"
_NO_LIMIT: Final = 2**63 - 1


class Shape(NamedTuple):
    partitions: int
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    needs_key: bool = False
    # How far a record's own time may lie behind and ahead of the clock.
    time_before_max_ms: int = _NO_LIMIT
    time_after_max_ms: int = _NO_LIMIT


class TopicShapes:
    """Shapes of topics, asked for when first needed and again when they may have changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[float, Shape | None]] = {}
        self._waited_at = float("-inf")

    def of(self, topic: str) -> Shape | None:
        """None: there is no such topic."""
        asked_at, shape = self._known.get(topic, (float("-inf"), None))
        if time.monotonic() - asked_at > KEPT_S:
            shape = self._ask(topic)
            self._known[topic] = (time.monotonic(), shape)
        return shape

    def _ask(self, topic: str) -> Shape | None:
        # A topic just made is not known to every broker at once, which is worth a wait; not one for each of
        # many names that are wrong.
        if time.monotonic() - self._waited_at < KEPT_S and not self._is_listed(topic):
            return None
        try:
            partitions = self._cluster.partitions_of([topic])[topic]
        except UnknownTopic:
            self._waited_at = time.monotonic()
            return None
        try:
            (entries,) = describe_configs(self._cluster, [topic]).values()
        except NotAuthorized:
            return Shape(partitions)
        configs = {entry.name: entry.value for entry in entries}
        has_own_time = configs.get("message.timestamp.type") != "LogAppendTime"
        return Shape(
            partitions,
            int(configs.get(_MESSAGE_BYTES_MAX) or MESSAGE_BYTES_MAX_DEFAULT),
            "compact" in (configs.get("cleanup.policy") or ""),
            int(configs.get(_BEFORE) or _NO_LIMIT) if has_own_time else _NO_LIMIT,
            int(configs.get(_AFTER) or _NO_LIMIT) if has_own_time else _NO_LIMIT,
        )

    def _is_listed(self, topic: str) -> bool:
        return any(listed.name == topic for listed in self._cluster.metadata(None))
