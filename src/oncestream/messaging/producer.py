"""`Producer`: sends records to topics; idempotent, in order, and no failed delivery goes unseen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import confluent_kafka
from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import (
    BufferFull,
    CannotSerialize,
    ClientMisused,
    DeliveryFailed,
    OncestreamError,
    ProducerFenced,
    RequestTimedOut,
)
from oncestream.messaging.failures import FOLLOWS_FATAL
from oncestream.messaging.numbering import Numbering
from oncestream.messaging.options import ProducerNames, ProducerOptions
from oncestream.messaging.record import Delivery, Headers, header_list
from oncestream.messaging.serializers import Serializer
from oncestream.messaging.settings import Access
from oncestream.messaging.topics import Topics
from oncestream.messaging.transactions import Transactions
from oncestream.records.murmur2 import key_hash

if TYPE_CHECKING:
    from oncestream.messaging.consumer import Consumer

OnDelivery = Callable[[Delivery], None]

ANY_PARTITION: Final = -1
FLUSH_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
RUN: Final = 500  # records without a key that go to one partition before the next one has its turn

log: Final = logging.getLogger(__name__)


class Producer:
    """Sends records; `oncestream.ProducerOptions` lists the parameters. For one thread.

    with Producer("localhost:9092") as producer:
        producer.send("/apps/pump:warning", {"celsius": 81}, key="pump-7")
    """

    def __init__(self, bootstrap_servers: str | None = None, **options: Unpack[ProducerNames]) -> None:
        self._options = ProducerOptions.of(options)
        self._access = Access.of(bootstrap_servers, self._options.settings)
        self._faults = self._access.faults()
        self._client: Any = self._access.build(confluent_kafka.Producer, self._faults, self._options.config())
        self._topics = Topics(self._access, self._faults, self._client)
        self._failed: list[DeliveryFailed] = []
        self._purged: Any = None  # librdkafka's error of a record that it threw away
        self._keyless = 0
        self._is_closed = False
        name, transactional_id = self._options.name, self._options.transactional_id
        self._numbering = Numbering(name, self._access, self._faults) if name else None
        self._transactions = (
            Transactions(self._client, transactional_id, self._faults) if transactional_id else None
        )

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        sequence: int | None = None,
    ) -> None:
        """Takes a record, to be sent soon. Waits where the buffer is full.

        `on_delivery` is told what became of it, inside a later call of this producer; a failure that nobody
        is told of is raised by the next send, flush or close. `sequence`: the number that the application
        itself gives a record of a named producer, rising in each partition.
        """
        self._raise_troubles()
        if self._transactions is not None:
            self._transactions.require_open("send")
        if sequence is not None and self._numbering is None:
            raise ClientMisused(what="send with a sequence", reason="the producer has no name")
        name = self._topics.kafka_name(topic, self._options.send_timeout_s)
        key_data = self._serialize(self._options.key_serializer, key, "key", topic)
        data = self._serialize(self._options.serializer, value, "value", topic)
        place = TopicPartition(name, self._partition(name, key_data, data, partition))
        listed = header_list(headers)
        if self._numbering is not None:
            listed += self._numbering.headers(place, sequence)
        self._enqueue(
            topic=name,
            value=data,
            key=key_data,
            partition=place.partition,
            headers=listed or None,
            timestamp=timestamp_ms or 0,
            on_delivery=self._reporter(on_delivery),
        )

    def last_sequence(self, topic: str, partition: int) -> int | None:
        """The highest number of this producer's name in a partition, or None: where a resend may go on."""
        if self._numbering is None:
            raise ClientMisused(what="last_sequence", reason="the producer has no name")
        name = self._topics.kafka_name(topic, self._options.send_timeout_s)
        return self._numbering.last(TopicPartition(name, partition))

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Waits until every record has reached its topic or failed."""
        self._raise_troubles()
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            waiting = self._flush(left_s)
            self._raise_troubles()
            if not waiting:
                return
            if left_s <= 0:
                raise RequestTimedOut(api="flush", timeout_s=timeout_s, reason=f"{waiting} records wait")

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        """Commits what is sent inside, or aborts it if anything is raised there.

        The position of `consumer` is committed with it, and an abort takes the consumer back.
        """
        self.begin(consumer)
        try:
            yield
        except BaseException as error:
            self.abort(error)
            raise
        self.commit(consumer)

    def begin(self, consumer: Consumer | None = None) -> None:
        """The first step of `transaction`, for programs that cannot use `with`."""
        self._raise_troubles()
        self.require_transactions("a transaction").begin(consumer)

    def commit(self, consumer: Consumer | None = None) -> None:
        """The last step of `transaction`. If it raises, the transaction is aborted, but for CommitUnknown."""
        transactions = self.require_transactions("commit")
        try:
            self.flush()
        except BaseException as error:
            self.abort(error)
            raise
        transactions.commit(consumer)

    def abort(self, reason: BaseException) -> None:
        """The last step of a `transaction` that failed because of `reason`."""
        self.require_transactions("abort").abort(reason)
        self._failed.clear()  # what an abort throws away is no failed delivery
        self._purged = None

    def commit_offsets(self, consumer: Consumer) -> None:
        """Inside a transaction: adds the consumer's position to it. RebalancedMeanwhile ends in an abort."""
        self.require_transactions("commit_offsets").commit_offsets(consumer)

    def settle(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """After CommitUnknown: whether that transaction was committed; asks until it is known."""
        return self.require_transactions("settle").settle(timeout_s)

    def poll(self, timeout_s: float = 0) -> None:
        """Lets `on_delivery` be called, for a program that sends seldom; waits so long for the first call of it."""
        deadline = time.monotonic() + timeout_s
        while not self._is_closed:
            left_s = max(0.0, deadline - time.monotonic())
            with self._faults.translated("poll", self._access.servers):
                if self._faults.waited(self._client.poll, left_s) or left_s <= 0:
                    return

    @property
    def waiting(self) -> int:
        """Records, and reports of deliveries, that are still on their way."""
        return 0 if self._is_closed else len(self._client)

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Flushes. A record that could not be delivered is raised here at the latest."""
        if self._is_closed:
            return
        try:
            self.flush(timeout_s)
        finally:
            self._is_closed = True
            del self._client, self._topics, self._transactions  # librdkafka ends with its last reference

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OncestreamError as failure:
            if error is None:
                raise
            error.add_note(f"and the producer could not be closed: {failure}")

    def __repr__(self) -> str:
        return f"Producer({self._access.servers!r}, {self._options})"

    def _flush(self, timeout_s: float) -> int:
        with self._faults.translated("flush", self._access.servers, timeout_s):
            return int(self._faults.waited(self._client.flush, timeout_s))

    def _partition(self, topic: str, key: bytes | None, data: bytes | None, partition: int | None) -> int:
        choose = self._options.partitioner
        if partition is not None:
            return partition
        if choose is None and self._numbering is None:
            return ANY_PARTITION
        count = self._topics.partitions(topic, self._options.send_timeout_s)
        if choose is not None:
            chosen = choose(key, data, count)
            if not 0 <= chosen < count:
                reason = f"the partitioner chose partition {chosen}, there are {count}"
                raise ClientMisused(what=f"sending to {self._topics.shown(topic)}", reason=reason)
            return chosen
        if key is not None:
            return key_hash(key) % count
        self._keyless += 1
        return self._keyless // RUN % count

    def _serialize(self, serialize: Serializer, value: Any, part: str, topic: str) -> bytes | None:
        try:
            return serialize(value)
        except Exception as error:
            raise CannotSerialize(part=part, topic=topic, reason=str(error) or repr(error)) from error

    def _enqueue(self, **message: Any) -> None:
        deadline: float | None = None
        while True:
            try:
                self._client.produce(**message)
                break
            except BufferError:
                deadline = deadline or time.monotonic() + self._options.send_timeout_s
                if time.monotonic() >= deadline:
                    raise BufferFull(
                        size_bytes=self._options.buffer_bytes_max, timeout_s=self._options.send_timeout_s
                    ) from None
                self.poll(POLL_S)
                self._raise_troubles()
            except KafkaException as error:
                shown = self._topics.shown(message["topic"])
                self._faults.await_fatal(error.args[0], self._client.poll)
                raise self._faults.of(error.args[0], "send", shown) from error
        self.poll(0)

    def _reporter(self, on_delivery: OnDelivery | None) -> Callable[[Any, Any], None]:
        if on_delivery is None:
            return self._delivered

        def report(error: Any, message: Any) -> None:
            on_delivery(self._delivery(error, message))

        return report

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            failed = self._delivery(error, message).error
            assert isinstance(failed, DeliveryFailed)
            self._failed.append(failed)
            if error.code() in FOLLOWS_FATAL:
                self._purged = error

    def _delivery(self, error: Any, message: Any) -> Delivery:
        self._faults.clear(message.topic)
        topic, partition = self._topics.shown(message.topic()), message.partition()
        if error is None:
            return Delivery(topic, partition, message.offset())
        reason = self._faults.of(error, "delivery", topic)
        place = f" (partition {partition})" if partition >= 0 else ""
        failed = DeliveryFailed(topic=topic, place=place, reason=reason.cause_text, others="")
        failed.__cause__ = reason
        return Delivery(topic, partition, -1, failed)

    def _raise_troubles(self) -> None:
        if self._is_closed:
            raise ClientMisused(what="sending", reason="the producer is closed")
        self._faults.raise_login()
        if self._failed:
            first, others = self._failed[0], len(self._failed) - 1
            self._failed.clear()
            reason = first.__cause__
            if self._purged is not None:
                self._faults.await_fatal(self._purged, self._client.poll)
                reason = self._faults.of(self._purged, "delivery", str(first.facts["topic"]))
            if isinstance(reason, ProducerFenced):
                raise reason
            told = f" (and {others} more)" if others else ""
            raise DeliveryFailed(**{**first.facts, "others": told}) from reason

    def require_transactions(self, what: str) -> Transactions:
        """Its transactions; ClientMisused where it has none."""
        if self._is_closed or self._transactions is None:
            reason = "it is closed" if self._is_closed else "the producer has no transactional_id"
            raise ClientMisused(what=what, reason=reason)
        return self._transactions
