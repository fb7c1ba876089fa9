"""The topics that `oncestream produce` writes to: looked at before the first record goes there."""

from __future__ import annotations

from oncestream.cli.arguments import existing_topics
from oncestream.client.cluster import Cluster
from oncestream.streams.names import parse_topic
from oncestream.streams.topics import ensure_topic


class Targets:
    """By the names that were given, which are Kafka's or those of streams."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names: dict[str, str] = {}
        self._partitions: dict[str, int] = {}

    def kafka_name(self, text: str) -> str:
        """A topic of a stream is made on first use; NoSuchStream, NoAutoCreate where that cannot be."""
        if text not in self._names:
            if text.startswith("/"):
                ensure_topic(self._cluster, text)
            self._names[text] = parse_topic(text)
        return self._names[text]

    def require_partition(self, kafka_name: str, number: int) -> None:
        """ValueError where the topic lacks it; UnknownTopic where there is no topic: none is made for it."""
        if kafka_name not in self._partitions:
            (state,) = existing_topics(self._cluster, [kafka_name])
            self._partitions[kafka_name] = len(state.partitions)
        if number >= self._partitions[kafka_name]:
            add = f"oncestream topic alter {kafka_name} --partitions {number + 1}"
            raise ValueError(f"{kafka_name} has no partition {number} ({add} adds it)")
