"""Reads records of ranges of partitions, as they come, and says when all have been read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from oncestream.cli.arguments import partitions_of
from oncestream.cli.cluster import access_to
from oncestream.cli.positions import Kind, Position, offsets_at
from oncestream.cli.record_format import Record
from oncestream.client.admin import TopicState
from oncestream.client.cluster import Cluster
from oncestream.client.damage import OnDamage, damage_at
from oncestream.client.topic_partition import TopicPartition as Place
from oncestream.errors import DataLost, OncestreamError, RequestTimedOut
from oncestream.messaging.failures import KafkaError

POLL_S: Final = 0.2
QUIET_S: Final = 1.0
BATCH: Final = 500
FETCH: Final = "FETCH"
NO_GROUP: Final = "oncestream-consume"  # librdkafka wants a name; nothing is committed under it


class Range(NamedTuple):
    """`end` None: for good."""

    start: int
    end: int | None


class Receiver:
    """`positions`: the next offset of each partition, after the records that `took` was told of.

    A partition with a batch that cannot be read is left there, and `on_damage` told: librdkafka asks for such a
    batch again and again, most often without a word.
    """

    def __init__(
        self,
        cluster: Cluster,
        ranges: Mapping[Place, Range],
        *,
        read_committed: bool,
        on_damage: OnDamage,
    ) -> None:
        settings = cluster.settings
        self._cluster = cluster
        self._on_damage = on_damage
        self.positions = {place: each.start for place, each in ranges.items()}
        self._ranges = ranges
        self._left = {place for place, each in ranges.items() if each.end is None or each.start < each.end}
        self._timeout_s = settings.api_timeout_ms / 1000
        access = access_to(settings)
        self._faults = access.faults()
        own: dict[str, Any] = {
            "group.id": NO_GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
        self._consumer = access.build(Consumer, self._faults, own)

    def batches(self) -> Iterator[list[Record]]:
        """What came, an empty list where nothing did for a moment; ends when every range is read."""
        self._consumer.assign([TopicPartition(*each, self._ranges[each].start) for each in self._left])
        has_end = all(each.end is not None for each in self._ranges.values())
        last = time.monotonic()
        has_looked = False
        while self._left:
            self._faults.raise_login()
            before = set(self._left)
            messages = self._consumer.consume(BATCH, POLL_S)
            if any(message.error() is None for message in messages):
                last, has_looked = time.monotonic(), False
            elif not has_looked and time.monotonic() - last > QUIET_S:
                self._leave_damaged()
                has_looked, before = True, set(self._left)
            elif has_end and time.monotonic() - last > self._timeout_s:
                # All of it was there when the end was asked for.
                raise RequestTimedOut(api=FETCH, timeout_s=self._timeout_s, reason="nothing more came")
            yield [_record(message) for message in messages if self._is_wanted(message)]
            for place in before - self._left:
                # Markers and aborted records at the end are never handed out, but they are behind us.
                self.positions[place] = self._ranges[place].end or 0

    def took(self, record: Record) -> None:
        self.positions[Place(record.topic, record.partition)] = record.offset + 1

    def close(self) -> None:
        self._consumer.close()

    def _leave_damaged(self) -> None:
        """Nothing has come for a moment: looks whether batches that cannot be read are the reason."""
        places = sorted(self._left)
        stand = self._consumer.position([TopicPartition(*place) for place in places])
        starts = {
            place: max(at.offset, self._ranges[place].start) for place, at in zip(places, stand, strict=True)
        }
        try:
            damaged = damage_at(self._cluster, starts)
        except OncestreamError:
            return  # the cluster is the reason: librdkafka goes on trying, and tells what does not pass
        for place, damage in damaged.items():
            self._on_damage(damage)
            self._leave(place)

    def _leave(self, place: Place) -> None:
        self._left.discard(place)
        self._consumer.pause([TopicPartition(*place)])

    def _is_wanted(self, message: Any) -> bool:
        """Whether it is a record of a range; notices where a range ends."""
        place = Place(message.topic(), message.partition())
        error = message.error()
        is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not is_end:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise DataLost(
                    offset=message.offset(), topic=place.topic, partition=place.partition, reason=error.str()
                )
            if error.code() == KafkaError._BAD_COMPRESSION:
                return False  # it will be found where nothing more comes
            # librdkafka looks for the coordinator of the group that it wants named, and does without it.
            if not error.retriable() and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise self._faults.of(error, FETCH, place.topic or "the consumer", self._timeout_s)
            return False
        end = self._ranges[place].end
        if place not in self._left:
            return False
        if end is not None and message.offset() + (not is_end) >= end:
            self._leave(place)
        return not is_end and (end is None or message.offset() < end)


def committed_records(
    cluster: Cluster, topics: Iterable[TopicState], on_damage: OnDamage
) -> Iterator[Record]:
    """All records of these topics that read_committed readers see, up to the end of now."""
    places = partitions_of(topics)
    if not places:
        return
    starts = offsets_at(cluster, places, Position(Kind.EARLIEST))
    ends = offsets_at(cluster, places, Position(Kind.LATEST))
    ranges = {each: Range(starts[each], ends[each]) for each in places}
    receiver = Receiver(cluster, ranges, read_committed=True, on_damage=on_damage)
    try:
        for records in receiver.batches():
            yield from records
    finally:
        receiver.close()


def _record(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp if kind else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
