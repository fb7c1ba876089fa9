"""Topics by the names that users give: their Kafka names, whether they are there, how many partitions they have."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import UnknownTopic
from oncestream.messaging.failures import AWAY, LATE, UNKNOWN, Faults, KafkaError
from oncestream.messaging.settings import Access
from oncestream.streams.names import StreamPath, display_name, is_whole_stream, parse_topic
from oncestream.streams.topics import ensure_topic

APPEARS_S: Final = 3.0  # a topic that was just made is not known everywhere at once
MADE_S: Final = 10.0  # nor is one that the broker makes because a producer asked for it
PAUSE_S: Final = 0.05
PARTITIONS_AGE_S: Final = 60.0
STEP_S: Final = 1.0
_PASSES: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE, *UNKNOWN, *AWAY, *LATE})


class _Partitions(NamedTuple):
    total: int
    asked_at: float


class Topics:
    """The topics that one producer or consumer has to do with. `client` is that of librdkafka."""

    def __init__(self, access: Access, faults: Faults, client: Any) -> None:
        self._access = access
        self._faults = faults
        self._client = client
        self._names: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._streams: list[StreamPath] = []
        self._partitions: dict[str, _Partitions] = {}

    def kafka_name(self, text: str, timeout_s: float) -> str:
        """Of a topic that is there; one of a stream is made on first use if its stream allows it."""
        found = self._names.get(text)
        if found is None:
            found = parse_topic(text)
            self._given[found] = text
            if text.startswith("/"):
                self._ensure(text)
            self._ask(found, timeout_s)
            self._names[text] = found
        return found

    def partitions(self, kafka_name: str, timeout_s: float) -> int:
        known = self._partitions.get(kafka_name)
        if known is None or time.monotonic() - known.asked_at > PARTITIONS_AGE_S:
            known = self._ask(kafka_name, timeout_s)
        return known.total

    def subscription(self, given: Iterable[str], *, must_exist: bool) -> list[str]:
        """What to subscribe to: Kafka names, and regular expressions, which begin with ^."""
        wanted: list[str] = []
        for text in given:
            if text.startswith("^"):
                wanted.append(text)
            elif is_whole_stream(text):
                path = StreamPath(text.rpartition(":")[0])
                self._streams.append(path)
                wanted.append(f"^{re.escape(path.prefix)}[A-Za-z0-9_-]+$")
            elif must_exist:
                wanted.append(self._existing(text))
            else:
                wanted.append(parse_topic(text))
                self._given[wanted[-1]] = text
        return wanted

    def shown(self, kafka_name: str) -> str:
        """The name as the user gave it."""
        name = self._given.get(kafka_name)
        if name is None:
            of_stream = any(path.topic_name(kafka_name) is not None for path in self._streams)
            name = self._given[kafka_name] = display_name(kafka_name) if of_stream else kafka_name
        return name

    def shown_partition(self, kafka_name: str, partition: int) -> TopicPartition:
        return TopicPartition(self.shown(kafka_name), partition)

    def require(self, kafka_name: str) -> None:
        """UnknownTopic if it is still not there a little later."""
        self._ask(kafka_name, APPEARS_S, serve=False)

    def _existing(self, text: str) -> str:
        try:
            return self.kafka_name(text, APPEARS_S)
        except UnknownTopic:
            raise UnknownTopic(topic=text) from None

    def _ensure(self, text: str) -> None:
        with closing(self._access.cluster()) as cluster:
            ensure_topic(cluster, text)

    def _ask(self, kafka_name: str, timeout_s: float, *, serve: bool = True) -> _Partitions:
        begun = time.monotonic()
        while True:
            error = self._look(kafka_name)
            if error is None:
                return self._partitions[kafka_name]
            if serve:
                # Only so does librdkafka tell of a login that was refused, or that it can do nothing more.
                with self._faults.translated("metadata", self.shown(kafka_name), timeout_s):
                    self._faults.served(lambda: self._client.poll(0))
                self._faults.raise_login()
            wait_s = min(timeout_s, MADE_S) if error.code() in UNKNOWN else timeout_s
            if error.code() not in _PASSES or time.monotonic() - begun >= wait_s:
                raise self._faults.of(error, "metadata", self.shown(kafka_name), timeout_s)
            time.sleep(PAUSE_S)

    def _look(self, kafka_name: str) -> Any:
        """Learns the topic's partitions, or answers why not."""
        try:
            told = self._client.list_topics(kafka_name, timeout=STEP_S).topics[kafka_name]
        except KafkaException as error:
            return error.args[0]
        if told.error is not None:
            return told.error
        if not told.partitions:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._partitions[kafka_name] = _Partitions(len(told.partitions), time.monotonic())
        return None
