"""Transactional producers and isolated readers of three client libraries, in one vocabulary."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Protocol, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

TIMEOUT_S: Final = 30
T = TypeVar("T")


class FencedError(Exception):
    """Another producer uses the transactional id, or the transaction timed out."""


class Producer(Protocol):
    """Made initialised: whoever used the id before is fenced."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Returns when the record is acknowledged."""

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Confluent:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        failed: list[Any] = []
        with _confluent_fenced():
            self._producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error)
            )
            assert self._producer.flush(TIMEOUT_S) == 0
        if failed[0] is not None:
            raise FencedError(failed[0])

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        metadata = consumer.consumer_group_metadata()
        where = confluent_kafka.TopicPartition(topic, partition, offset)
        with _confluent_fenced():
            self._producer.send_offsets_to_transaction([where], metadata, TIMEOUT_S)
        consumer.close()

    def commit(self) -> None:
        with _confluent_fenced():
            self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        with _confluent_fenced():
            self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()

    def read(self, topic: str, partition: int, *, committed: bool) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        values = []
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no end of the partition in sight"
            if message.error():
                break
            values.append(message.value() or b"")
        consumer.close()
        return values


class KafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with _fenced(kafka.errors.KafkaError):
            self._producer.send(topic, value=value, partition=partition).get(timeout=TIMEOUT_S)

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        where = {kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)}
        with _fenced(kafka.errors.KafkaError):
            self._producer.send_offsets_to_transaction(where, group)

    def commit(self) -> None:
        with _fenced(kafka.errors.KafkaError):
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _fenced(kafka.errors.KafkaError):
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class Aiokafka:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._runner = asyncio.Runner()
        self._producer = self._run(self._start(transactional_id, timeout_ms))

    async def _start(self, transactional_id: str, timeout_ms: int) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        await producer.start()
        return producer

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        with _fenced(aiokafka.errors.KafkaError):
            self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, topic: str, partition: int, offset: int, group: str) -> None:
        where = {aiokafka.TopicPartition(topic, partition): offset}
        with _fenced(aiokafka.errors.KafkaError):
            self._run(self._producer.send_offsets_to_transaction(where, group))

    def commit(self) -> None:
        with _fenced(aiokafka.errors.KafkaError):
            self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        with _fenced(aiokafka.errors.KafkaError):
            self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(aiokafka.errors.KafkaError):
            self._run(self._producer.stop())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(work, TIMEOUT_S))


@contextlib.contextmanager
def _fenced(*errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise FencedError(repr(error)) from error


@contextlib.contextmanager
def _confluent_fenced() -> Iterator[None]:
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise FencedError(str(error)) from error
    except SystemError as error:  # a fatal error, told while another callback was about to run
        if not isinstance(error.__cause__, confluent_kafka.KafkaException):
            raise
        raise FencedError(str(error.__cause__)) from error
