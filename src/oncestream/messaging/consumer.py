"""`Consumer`: reads topics as a member of a group."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self, Unpack

import confluent_kafka
from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadSetting, ClientMisused, OncestreamError, RebalancedMeanwhile
from oncestream.messaging.assignment import Reading, kafka_offsets
from oncestream.messaging.options import ConsumerNames, ConsumerOptions
from oncestream.messaging.reader import STEP_S, Reader
from oncestream.messaging.record import Record
from oncestream.messaging.settings import Access
from oncestream.messaging.topics import Topics
from oncestream.streams.names import parse_topic

TIMEOUT_S: Final = 60.0
COMMIT_EVERY_S: Final = 5.0
REGEX_REFRESH_MS: Final = 10_000

log: Final = logging.getLogger(__name__)


class Consumer:
    """Reads topics, stream names, whole streams (`/apps/pump:*`) or regular expressions (`^...`).

    with Consumer("/apps/pump:warning", group="alarms") as consumer:
        for record in consumer:
            ...

    `oncestream.ConsumerOptions` lists the parameters. For one thread.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        bootstrap_servers: str | None = None,
        **options: Unpack[ConsumerNames],
    ) -> None:
        self.group = group
        self._options = ConsumerOptions.of(options)
        self._access = Access.of(bootstrap_servers, self._options.settings)
        self._faults = self._access.faults()
        given = [topics] if isinstance(topics, str) else list(topics)
        if not given:
            raise BadSetting(name="topics", origin="the parameters", reason="it names none")
        config = self._options.config(group)
        if any(text.startswith("^") or text.endswith(":*") for text in given):
            config["topic.metadata.refresh.interval.ms"] = REGEX_REFRESH_MS  # to see topics that are new
        self._client: Any = self._access.build(confluent_kafka.Consumer, self._faults, config)
        self._topics = Topics(self._access, self._faults, self._client)
        self._committed_at = time.monotonic()
        self._is_closed = False
        self._reader = Reader(
            self._client, self._topics, self._faults, self._options, group, self._assigned, self._revoked
        )
        self._held = self._reader.held
        may_appear = str(self._options.settings.get("allow.auto.create.topics", False)).lower() == "true"
        self._reader.subscribe(self._topics.subscription(given, must_exist=not may_appear))

    @property
    def commits_itself(self) -> bool:
        return self._options.commits_itself

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        """The next record, however long it takes."""
        while True:
            record = self.take()
            if record is not None:
                return record
            self.fill(STEP_S)

    def poll(self, timeout_s: float = STEP_S) -> list[Record]:
        """The records that are there, or that come first within the time; at most `poll_records_max`."""
        self.finish()
        self.fill(timeout_s)
        return self.take_all()

    def finish(self) -> None:
        """The program is through with all that it was handed out."""
        self._held.finish()

    def take_all(self) -> list[Record]:
        """What was read already: never waits."""
        return list(iter(self._reader.pop, None))

    def take(self) -> Record | None:
        """The next record, if one was read already: never waits."""
        self._held.finish()
        return self._reader.pop()

    def fill(self, timeout_s: float) -> None:
        """Reads what there is, so that `take` has something to hand out. Rebalances happen in here."""
        self._require_open("reading")
        if self.commits_itself and time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
            self._commit_finished()
        self._reader.fill(timeout_s)

    def commit(self) -> None:
        """Commits, and waits for it, the position behind every record that was handed out."""
        self._require_open("commit")
        self._commit(self._held.uncommitted())

    def position(self) -> dict[TopicPartition, int]:
        """The read cursor: the next offset of every partition that was read or sought."""
        return {self._topics.shown_partition(*each): at for each, at in self._held.positions.items()}

    def committed(self) -> dict[TopicPartition, int | None]:
        """The committed cursor of every assigned partition, as the broker has it."""
        self._require_open("committed")
        partitions = [confluent_kafka.TopicPartition(*each) for each in self._held.owned]
        with self._faults.translated("committed", self.group, TIMEOUT_S):
            found = self._client.committed(partitions, TIMEOUT_S) if partitions else []
            for at in found:
                if at.error is not None:
                    raise KafkaException(at.error)
        return {
            self._topics.shown_partition(at.topic, at.partition): at.offset if at.offset >= 0 else None
            for at in found
        }

    def assignment(self) -> list[TopicPartition]:
        return sorted(self._topics.shown_partition(*each) for each in self._held.owned)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """The next record of that partition is the one at `offset`; also out of an error that names it."""
        place = self._own(topic, partition, "seek")
        self._reader.seek(place, offset)
        self._held.sought(place, offset)

    def rewind(self) -> None:
        """Back to what is committed, or to where reading began: what was handed out since comes again."""
        if not self._is_closed:
            for place, offset in self._held.rewind().items():
                self._reader.seek(place, offset)

    def pause(self, topic: str, partition: int) -> None:
        """No more records of that partition until `resume`, or until it is assigned anew."""
        place = self._own(topic, partition, "pause")
        self._reader.put_back(place)
        with self._faults.translated("pause", topic):
            self._client.pause([confluent_kafka.TopicPartition(*place)])

    def resume(self, topic: str, partition: int) -> None:
        place = self._own(topic, partition, "resume")
        with self._faults.translated("resume", topic):
            self._client.resume([confluent_kafka.TopicPartition(*place)])

    def transaction_offsets(self) -> Reading | None:
        """For a producer's transaction: what was handed out, if all of it is still this member's to commit."""
        self._require_open("commit_offsets")
        if self._held.taken_away:
            gone = ", ".join(map(str, sorted(self._held.taken_away)))
            raise RebalancedMeanwhile(group=self.group, reason=f"{gone} went to another member")
        offsets = self._held.uncommitted()
        if not offsets:
            return None
        if self._reader.metadata is None:
            raise RebalancedMeanwhile(group=self.group, reason="this member was put out of the group")
        return Reading(offsets, self._reader.metadata)

    def was_committed(self, offsets: dict[TopicPartition, int]) -> None:
        """By a producer's transaction."""
        self._held.committed(offsets)

    def close(self) -> None:
        """Leaves the group. With commit="auto" what is finished is committed: not the last that was handed out."""
        if self._is_closed:
            return
        if self.commits_itself:
            self._commit_finished()
        with self._faults.translated("close", self.group):
            self._client.close()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Consumer(group={self.group!r}, {self._access.servers!r}, {self._options})"

    def _assigned(self, places: list[TopicPartition]) -> None:
        if self._options.on_assigned is not None:
            self._options.on_assigned(self, [self._topics.shown_partition(*each) for each in places])

    def _revoked(self, places: list[TopicPartition]) -> None:
        if self.commits_itself:
            self._commit_finished()
        if self._options.on_revoked is not None:
            self._options.on_revoked(self, [self._topics.shown_partition(*each) for each in places])

    def _commit_finished(self) -> None:
        """What fails here is committed the next time, or read again: at least once."""
        self._committed_at = time.monotonic()
        try:
            self._commit(self._held.uncommitted_finished())
        except OncestreamError as error:
            log.warning("%s: positions were not committed: %s", self.group, error)

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        if not offsets:
            return
        with self._faults.translated("commit", self.group, TIMEOUT_S):
            for each in self._client.commit(offsets=kafka_offsets(offsets), asynchronous=False):
                if each.error is not None:
                    raise KafkaException(each.error)
        self._held.committed(offsets)

    def _own(self, topic: str, partition: int, what: str) -> TopicPartition:
        self._require_open(what)
        place = TopicPartition(parse_topic(topic), partition)
        if place not in self._held.owned:
            raise ClientMisused(what=what, reason=f"{topic}-{partition} is not assigned to this consumer")
        return place

    def _require_open(self, what: str) -> None:
        if self._is_closed:
            raise ClientMisused(what=what, reason="the consumer is closed")
