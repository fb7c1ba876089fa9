"""A transactional producer and a consumer of committed records, over confluent-kafka, that write a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.messaging.starts import with_starts
from oncestream.verify.final_log import number_of
from oncestream.verify.history import (
    NO_OFFSET,
    NO_TRANSACTION,
    HistoryWriter,
    Kind,
    Phase,
    Record,
)

TIMEOUT_S: Final = 30.0
# With any other error an earlier try may have been written, its acknowledgement lost.
SURELY_NOT_WRITTEN: Final = (
    confluent_kafka.KafkaError._PURGE_QUEUE,
    confluent_kafka.KafkaError._UNKNOWN_TOPIC,
    confluent_kafka.KafkaError._UNKNOWN_PARTITION,
    confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE,
    confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    confluent_kafka.KafkaError.INVALID_RECORD,
)


class RecordedProducer:
    """Sends numbers, each at most once to a partition in the whole run. For one thread.

    A process name is used once: one that starts again takes another. Without `transactional_id`, an idempotent
    producer outside of transactions.
    """

    def __init__(
        self,
        history: HistoryWriter,
        process: str,
        settings: Mapping[str, Any],
        *,
        transactional_id: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.process = process
        self.transaction = NO_TRANSACTION
        self._history = history
        self._timeout_s = timeout_s
        self._count = 0
        own = {"enable.idempotence": True} if transactional_id is None else {}
        named = {} if transactional_id is None else {"transactional.id": transactional_id}
        self.client = confluent_kafka.Producer({**own, **settings, **named})
        if transactional_id is not None:
            self.client.init_transactions(timeout_s)

    @property
    def coming_transaction(self) -> int:
        """The open one, or else the next: that in which what is polled now will be used."""
        return self._count if self.transaction == NO_TRANSACTION else self.transaction

    def begin(self) -> None:
        self.client.begin_transaction()
        self.transaction = self._count
        self._count += 1
        self._tell(Kind.BEGIN, Phase.OK)

    def send(self, at: TopicPartition, value: int, *, padding: bytes = b"") -> None:
        """The record's value is the number in digits, and a blank and the padding, if any."""
        record = (Record(at.topic, at.partition, NO_OFFSET, value),)
        transaction = self.transaction

        def delivered(error: Any, message: Any) -> None:
            offset = NO_OFFSET if error is not None or message.offset() is None else message.offset()
            self._history.write(
                Kind.SEND,
                _outcome(error),
                self.process,
                transaction=transaction,
                records=(record[0]._replace(offset=max(offset, NO_OFFSET)),),
                note="" if error is None else error.name(),
            )

        self._tell(Kind.SEND, Phase.INVOKE, record)
        content = b"%d %b" % (value, padding) if padding else b"%d" % value
        while True:
            try:
                self.client.produce(at.topic, content, partition=at.partition, on_delivery=delivered)
                break
            except BufferError:
                self.client.poll(0.1)
            except KafkaException as error:
                self._tell(Kind.SEND, Phase.FAILED, record, error.args[0].name())
                raise
        self.client.poll(0)

    def send_offsets(self, consumer: RecordedConsumer, member: Any = None) -> None:
        """Adds the consumer's positions to the transaction, as the member of its group that it is, or was."""
        offsets = consumer.positions()
        records = tuple(Record(*at, offset) for at, offset in offsets.items())
        places = [confluent_kafka.TopicPartition(*at, offset) for at, offset in offsets.items()]
        metadata = consumer.client.consumer_group_metadata() if member is None else member
        self._call(
            Kind.OFFSETS,
            lambda: self.client.send_offsets_to_transaction(places, metadata, self._timeout_s),
            records,
        )

    def commit(self) -> None:
        """Raises what librdkafka raised, after it is written down."""
        self._call(Kind.COMMIT, lambda: self.client.commit_transaction(self._timeout_s))
        self.transaction = NO_TRANSACTION

    def abort(self) -> None:
        self._call(Kind.ABORT, lambda: self.client.abort_transaction(self._timeout_s))
        self.transaction = NO_TRANSACTION

    def flush(self) -> int:
        """Answers how many records are still under way."""
        return int(self.client.flush(self._timeout_s))

    def _call(self, kind: Kind, call: Callable[[], object], records: tuple[Record, ...] = ()) -> None:
        self._tell(kind, Phase.INVOKE, records)
        try:
            call()
        except KafkaException as error:
            # Whether EndTxn reached the broker cannot be told from the error. An abort that succeeds tells.
            self._tell(kind, Phase.UNKNOWN, records, error.args[0].name())
            raise
        self._tell(kind, Phase.OK, records)

    def _tell(self, kind: Kind, phase: Phase, records: tuple[Record, ...] = (), note: str = "") -> None:
        self._history.write(
            kind, phase, self.process, transaction=self.transaction, records=records, note=note
        )


class RecordedConsumer:
    """Polls numbers. `of`: the producer in whose transactions they are used; both are one process, in one thread."""

    def __init__(
        self,
        history: HistoryWriter,
        process: str,
        settings: Mapping[str, Any],
        *,
        of: RecordedProducer | None = None,
    ) -> None:
        self.process = process if of is None else of.process
        self._history = history
        self._producer = of
        self._is_eager = settings.get("group.protocol", "classic") == "classic"
        self.assignments = 0  # how often its partitions have changed
        self._positions: dict[TopicPartition, int] = {}
        self.client = confluent_kafka.Consumer(
            {
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "group.id": process,
                **settings,
            }
        )

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions from these offsets on."""
        self.client.assign([confluent_kafka.TopicPartition(*at, offset) for at, offset in positions.items()])
        self._assigned(dict(positions))

    def subscribe(self, topics: Sequence[str]) -> None:
        """As a member of its group. Each rebalance is written down."""
        takes_over = self._replaces if self._is_eager else self._adds
        gives_up = self._clears if self._is_eager else self._drops
        self.client.subscribe(list(topics), on_assign=takes_over, on_revoke=gives_up, on_lost=gives_up)

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.client.seek(confluent_kafka.TopicPartition(*at, offset))
        self._positions[at] = offset
        self._tell(Kind.SEEK, (Record(*at, offset),))

    def poll(self, count: int = 500, timeout_s: float = 0.1) -> list[Record]:
        """Records as they came, written down before an error of librdkafka is raised; ends of partitions left out."""
        records = []
        failure = None
        for message in self.client.consume(count, timeout_s):
            error = message.error()
            if error is None:
                records.append(_record(message))
                self._positions[records[-1].at] = records[-1].offset + 1
            elif error.code() != confluent_kafka.KafkaError._PARTITION_EOF:
                failure = error
        if records:
            self._tell(Kind.POLL, tuple(records))
        if failure is not None:
            raise KafkaException(failure)
        return records

    def commit(self) -> None:
        """Commits its positions for its group, outside of transactions."""
        places = [confluent_kafka.TopicPartition(*at, offset) for at, offset in self.positions().items()]
        if places:
            self.client.commit(offsets=places, asynchronous=False)

    def positions(self) -> dict[TopicPartition, int]:
        """The offsets to read next, of partitions where that is known."""
        return {at: offset for at, offset in self._positions.items() if offset >= 0}

    def close(self) -> None:
        self.client.close()

    def _replaces(self, consumer: Any, all_of_it: list[Any]) -> None:
        starts = consumer.committed(all_of_it, TIMEOUT_S)
        consumer.assign(with_starts(consumer, starts, latest=False))
        self._assigned(_starts(starts))

    def _clears(self, _consumer: Any, _lost: list[Any]) -> None:
        self._assigned({})

    def _adds(self, consumer: Any, added: list[Any]) -> None:
        starts = consumer.committed(added, TIMEOUT_S) if added else []
        consumer.incremental_assign(with_starts(consumer, starts, latest=False))
        self._assigned({**self._positions, **_starts(starts)})

    def _drops(self, consumer: Any, lost: list[Any]) -> None:
        consumer.incremental_unassign(lost)
        gone = {TopicPartition(each.topic, each.partition) for each in lost}
        self._assigned({at: offset for at, offset in self._positions.items() if at not in gone})

    def _assigned(self, positions: dict[TopicPartition, int]) -> None:
        self.assignments += 1
        self._positions = positions
        self._tell(Kind.ASSIGN, tuple(Record(*at, offset) for at, offset in positions.items()))

    def _tell(self, kind: Kind, records: tuple[Record, ...]) -> None:
        transaction = NO_TRANSACTION if self._producer is None else self._producer.coming_transaction
        self._history.write(kind, Phase.OK, self.process, transaction=transaction, records=records)


def _starts(committed: list[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(each.topic, each.partition): max(each.offset, NO_OFFSET) for each in committed}


def _record(message: Any) -> Record:
    return Record(message.topic(), message.partition(), message.offset(), number_of(message.value()))


def _outcome(error: Any) -> Phase:
    if error is None:
        return Phase.OK
    return Phase.FAILED if error.code() in SURELY_NOT_WRITTEN else Phase.UNKNOWN
