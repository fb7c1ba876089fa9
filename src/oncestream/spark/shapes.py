"""What a writer must know of a topic: how many partitions it has and how large a record may be."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from oncestream.client.admin import topic_configs
from oncestream.client.cluster import Cluster
from oncestream.errors import NotAuthorized, UnknownTopic

KEPT_S: Final = 30.0
MESSAGE_BYTES_MAX_DEFAULT: Final = 1_048_588
_MESSAGE_BYTES_MAX: Final = "max.message.bytes"


class Shape(NamedTuple):
    partitions: int
    message_bytes_max: int


class TopicShapes:
    """Shapes of topics, asked for when first needed and again when they may have changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[float, Shape | None]] = {}

    def of(self, topic: str) -> Shape | None:
        """None: there is no such topic."""
        asked_at, shape = self._known.get(topic, (float("-inf"), None))
        if time.monotonic() - asked_at > KEPT_S:
            shape = self._ask(topic)
            self._known[topic] = (time.monotonic(), shape)
        return shape

    def _ask(self, topic: str) -> Shape | None:
        try:
            partitions = self._cluster.partitions_of([topic])[topic]
        except UnknownTopic:
            return None
        try:
            limit = topic_configs(self._cluster, [topic])[topic].get(_MESSAGE_BYTES_MAX)
        except NotAuthorized:
            limit = None
        return Shape(partitions, int(limit) if limit else MESSAGE_BYTES_MAX_DEFAULT)
