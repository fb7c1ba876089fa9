"""A consumer's reading: records that wait to be handed out, and rebalances, which happen only while it reads."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import OFFSET_STORED, KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import NoPosition, OncestreamError
from oncestream.messaging.assignment import Assignment, kafka_offsets
from oncestream.messaging.decoding import Decoder
from oncestream.messaging.failures import AWAY, LATE, UNKNOWN, Faults, KafkaError
from oncestream.messaging.options import ConsumerOptions
from oncestream.messaging.record import Record
from oncestream.messaging.starts import with_starts
from oncestream.messaging.topics import Topics

STEP_S: Final = 1.0  # a thread that waits in librdkafka sees no signal of Python for as long
SEEK_TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.02

# Told by librdkafka on the way, and overcome by itself.
_PASSING: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError._MAX_POLL_EXCEEDED, *AWAY, *LATE})

OnPlaces = Callable[[list[TopicPartition]], None]

log: Final = logging.getLogger(__name__)


class Reader:
    """Over librdkafka's consumer.

    Because it has callbacks for rebalances, librdkafka runs them inside poll and close: between two polls
    neither the assignment nor the generation, as which offsets are committed, can change unseen.
    """

    def __init__(
        self,
        client: Any,
        topics: Topics,
        faults: Faults,
        options: ConsumerOptions,
        group: str,
        on_assigned: OnPlaces,
        on_revoked: OnPlaces,
    ) -> None:
        self.held = Assignment()
        self.metadata: Any = None  # as which member what was read is committed; None outside of the group
        self._client = client
        self._topics = topics
        self._faults = faults
        self._options = options
        self._group = group
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._decoder = Decoder(topics, options.deserializer, options.key_deserializer)
        self._ready: deque[tuple[TopicPartition, Record]] = deque()
        self._stuck: dict[TopicPartition, OncestreamError] = {}
        self._failure: OncestreamError | None = None
        self._starts: dict[TopicPartition, int] | None = (
            None  # while partitions are assigned: what was sought
        )

    def subscribe(self, topics: list[str]) -> None:
        self._client.subscribe(topics, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def pop(self) -> Record | None:
        """Hands out the next record that was read."""
        if not self._ready:
            return None
        place, record = self._ready.popleft()
        self.held.handed_out(place, record.offset)
        return record

    def fill(self, timeout_s: float) -> None:
        """Reads what there is, or what comes first within the time."""
        if self._ready:
            return
        self._raise_troubles()
        self.metadata = self._member()
        deadline = time.monotonic() + timeout_s
        while len(self._ready) < self._options.poll_records_max and not (self._failure or self._stuck):
            wait_s = 0.0 if self._ready else min(STEP_S, max(0.0, deadline - time.monotonic()))
            with self._faults.translated("poll", self._group):
                message = self._client.poll(wait_s)
            if message is not None:
                self._take_in(message)
            elif self._ready or time.monotonic() >= deadline:
                break
            self._faults.raise_login()
        if not self._ready:
            self._raise_troubles()

    def seek(self, place: TopicPartition, offset: int) -> None:
        """What was read of that partition and not handed out is forgotten, and so is an error there."""
        stuck = self._stuck.pop(place, None)
        if self._starts is not None:
            self._starts[place] = offset
        elif isinstance(stuck, NoPosition):
            self._assign_again(place, offset)
        else:
            self._forget_unread(place)
            self._seek(place, offset)

    def put_back(self, place: TopicPartition) -> None:
        """Records of that partition that were not handed out are read again later."""
        unread = next((record.offset for at, record in self._ready if at == place), None)
        if unread is not None:
            self.seek(place, unread)

    # -- called by librdkafka, inside poll and close ------------------------------------------

    def _assign(self, client: Any, partitions: list[Any]) -> None:
        places = _places(partitions)
        self.held.assigned(places)
        self.metadata = self._member()
        self._starts = {}
        try:
            self._on_assigned(places)
        finally:
            starts, self._starts = self._starts, None
            for each, place in zip(partitions, places, strict=True):
                each.offset = starts.get(place, each.offset)
            if self._options.start != "none":
                partitions = with_starts(client, partitions, latest=self._options.start == "latest")
            (client.incremental_assign if self._options.is_incremental else client.assign)(partitions)

    def _revoke(self, _: Any, partitions: list[Any]) -> None:
        places = _places(partitions)
        try:
            self._on_revoked(places)
        finally:
            self._let_go(places)

    def _lose(self, _: Any, partitions: list[Any]) -> None:
        """They belong to others already: nothing of them can be committed any more."""
        places = _places(partitions)
        self.metadata = None
        self._let_go(places)
        self._on_revoked(places)

    # -----------------------------------------------------------------------------------------

    def _seek(self, place: TopicPartition, offset: int) -> None:
        deadline = time.monotonic() + SEEK_TIMEOUT_S
        while True:
            try:
                self._client.seek(confluent_kafka.TopicPartition(*place, offset))
                return
            except KafkaException as error:
                # So it answers while it has only begun to look the partition up.
                if error.args[0].code() != KafkaError._STATE or time.monotonic() >= deadline:
                    raise self._faults.of(error.args[0], "seek", self._topics.shown(place.topic)) from error
            time.sleep(PAUSE_S)

    def _assign_again(self, place: TopicPartition, offset: int) -> None:
        """librdkafka gives up a partition without a position: it cannot be sought in, only begun anew."""
        if self._options.is_incremental:
            self._forget_unread(place)
            self._client.incremental_unassign(kafka_offsets({place: offset}))
            self._client.incremental_assign(kafka_offsets({place: offset}))
            return
        self._ready.clear()
        starts = {each: self.held.positions.get(each, OFFSET_STORED) for each in self.held.owned}
        self._client.assign(kafka_offsets({**starts, place: offset}))

    def _let_go(self, places: list[TopicPartition]) -> None:
        self.held.revoked(places)
        for place in places:
            self._forget_unread(place)
            self._stuck.pop(place, None)

    def _forget_unread(self, place: TopicPartition) -> None:
        if self._ready:
            self._ready = deque(entry for entry in self._ready if entry[0] != place)

    def _member(self) -> Any:
        """A commit as no member would be taken by the broker from anybody: None says to make none."""
        metadata = self._client.consumer_group_metadata()
        return metadata if self._client.memberid() else None

    def _take_in(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            self._take_error(error, message.topic() or "", message.partition())
            return
        place = TopicPartition(message.topic(), message.partition())
        try:
            self._ready.append((place, self._decoder.record(message)))
        except OncestreamError as bad:
            self._stuck[place] = bad

    def _take_error(self, error: Any, topic: str, partition: int) -> None:
        code, subject = error.code(), self._topics.shown(topic) if topic else self._group
        if code == KafkaError._AUTO_OFFSET_RESET:
            self._stuck[TopicPartition(topic, partition)] = NoPosition(
                group=self._group, topic=subject, partition=partition, reason=error.str()
            )
        elif code in UNKNOWN and topic and not topic.startswith("^"):
            try:
                self._topics.require(topic)
            except OncestreamError as failure:
                self._failure = failure
        elif code in _PASSING or code in UNKNOWN or (error.retriable() and not error.fatal()):
            log.warning("%s: %s", self._group, error.str())
        else:
            self._failure = self._faults.of(error, "poll", subject)

    def _raise_troubles(self) -> None:
        """An error of a partition stays until it is sought out of: nothing is passed over in silence."""
        self._faults.raise_login()
        for stuck in self._stuck.values():
            raise stuck
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def _places(partitions: list[Any]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]
