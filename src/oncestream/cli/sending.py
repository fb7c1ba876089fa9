"""Sends messages, each by itself or so many to a transaction: nothing of a transaction that fails is seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from oncestream.cli.cluster import access_to
from oncestream.cli.produce_input import Message
from oncestream.client.settings import ClientSettings
from oncestream.errors import CommitUnknown, OncestreamError
from oncestream.messaging.settings import ONE_IN_FLIGHT

DELIVERY_TIMEOUT_MS: Final = 60_000
NEW_TOPIC_WAIT_MS: Final = 10_000  # then a topic that is not there is told
COMMIT_TRY_S: Final = 10.0
POLL_S: Final = 0.1
PRODUCE: Final = "PRODUCE"


class Sender:
    """`transaction_size` None: no transactions; 0: one for all."""

    def __init__(
        self,
        settings: ClientSettings,
        options: dict[str, Any],
        transaction_size: int | None,
        transactional_id: str,
        transaction_timeout_ms: int,
    ) -> None:
        self._size = transaction_size
        self.transactional_id = transactional_id
        self._timeout_s = max(DELIVERY_TIMEOUT_MS, transaction_timeout_ms) / 1000
        own: dict[str, Any] = {
            "linger.ms": 5,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "topic.metadata.propagation.max.ms": NEW_TOPIC_WAIT_MS,
            "partitioner": "murmur2_random",  # as Java's producer and our pipelines
        }
        if transaction_size is not None:
            own |= {
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": transaction_timeout_ms,
                "message.timeout.ms": min(DELIVERY_TIMEOUT_MS, transaction_timeout_ms),
            }
        elif options.get("enable.idempotence"):
            own |= ONE_IN_FLIGHT
        access = access_to(settings)
        self._faults = access.faults()
        self._producer = access.build(Producer, self._faults, {**own, **options})
        self._in_transaction = 0
        self._is_open = False
        self._failure: tuple[KafkaError, str] | None = None
        self.delivered = 0  # and committed, where there are transactions
        self.transactions = 0
        self.topics: set[str] = set()

    def __enter__(self) -> Self:
        if self._size is not None:
            self._call(self._producer.init_transactions, self._timeout_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends in good order, or takes back the open transaction."""
        if error is not None:
            self._give_up()
            return
        try:
            self.commit()
        except OncestreamError:
            self._give_up()
            raise

    def send(self, message: Message) -> None:
        """ValueError where the client does not take the message."""
        if self._size is not None and not self._is_open:
            self._call(self._producer.begin_transaction)
            self._is_open = True
        topic = str(message.topic)
        self.topics.add(topic)
        while True:
            try:
                self._producer.produce(topic, **self._arguments(message))
                break
            except BufferError:
                self._serve(self._producer.poll, POLL_S)
                self._raise_failure()
            except KafkaException as error:
                self._refused(error.args[0], message)
        self._in_transaction += 1
        self._serve(self._producer.poll, 0)
        self._raise_failure()
        if self._size and self._in_transaction >= self._size:
            self.commit()

    def commit(self) -> None:
        """Waits until all that was sent is there, and makes it visible."""
        if self._is_open:
            self._flush()
            self._commit_transaction()
            self._is_open = False
            self.delivered += self._in_transaction
            self.transactions += 1
        elif self._size is None:
            self._flush()
        self._in_transaction = 0

    def _commit_transaction(self) -> None:
        """Asks again where no answer came; what may be committed is never aborted."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._producer.commit_transaction(COMMIT_TRY_S)
                return
            except KafkaException as error:
                told = error.args[0]
                if told.txn_requires_abort():
                    raise self._error(told, self._subject()) from None
                self._is_open = False
                if not told.retriable():
                    raise self._error(told, self._subject()) from None
                if time.monotonic() > deadline:
                    raise CommitUnknown(transactional_id=self.transactional_id, reason=told.str()) from None

    def _give_up(self) -> None:
        """After an error, which is the one to tell: one that comes on top of it changes nothing."""
        with suppress(OncestreamError):
            if self._is_open:
                self._is_open = False
                self._call(self._producer.abort_transaction, self._timeout_s)
            elif self._size is None:
                self._wait_for_all()

    def _flush(self) -> None:
        left = self._wait_for_all()
        self._raise_failure()
        if left:
            raise self._error(KafkaError(KafkaError._TIMED_OUT), self._subject())

    def _wait_for_all(self) -> int:
        """How many are still on their way when the time is over."""
        deadline = time.monotonic() + self._timeout_s
        while left := self._serve(self._producer.flush, max(0.0, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                break
        return left

    def _arguments(self, message: Message) -> dict[str, Any]:
        wanted = {
            "value": message.value,
            "key": message.key,
            "partition": message.partition,
            "timestamp": message.timestamp_ms,
            "headers": list(message.headers) or None,
        }
        arguments = {name: value for name, value in wanted.items() if value is not None}
        return {**arguments, "on_delivery": self._on_delivery}

    def _on_delivery(self, error: KafkaError | None, told: Any) -> None:
        self._faults.clear(told.topic)
        if error is not None:
            unknown_partition = error.code() == KafkaError._UNKNOWN_PARTITION
            subject = f"{told.topic()}-{told.partition()}" if unknown_partition else told.topic()
            self._failure = self._failure or (error, subject)
        elif self._size is None:
            self.delivered += 1

    def _refused(self, error: KafkaError, message: Message) -> None:
        """A message that is too large is the input's fault; all else is not."""
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = len(message.value or b"") + len(message.key or b"")
            raise ValueError(f"its {size} bytes are more than the client sends")
        self._faults.await_fatal(error, self._producer.poll)
        raise self._error(error, str(message.topic))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            error, subject = self._failure
            self._faults.await_fatal(error, self._producer.poll)
            raise self._error(error, subject)

    def _serve(self, wait: Callable[[float], int], timeout_s: float) -> int:
        try:
            return self._faults.waited(wait, timeout_s)
        except KafkaException as error:
            raise self._error(error.args[0], self._subject()) from None

    def _call(self, function: Any, *arguments: object) -> Any:
        try:
            return self._faults.served(lambda: function(*arguments))
        except KafkaException as error:
            if not error.args[0].fatal():
                self._raise_failure()
            raise self._error(error.args[0], self._subject()) from None

    def _subject(self) -> str:
        return ", ".join(sorted(self.topics)) or f"transactional id {self.transactional_id}"

    def _error(self, error: KafkaError, subject: str) -> OncestreamError:
        return self._faults.of(error, PRODUCE, subject, self._timeout_s)
