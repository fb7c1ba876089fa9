"""Producers of numbered records that never give up: what they were promised can be counted afterwards."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from random import Random
from typing import Final

import confluent_kafka

from oncestream.storage.journal import BATCH_BYTES_MAX
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.produce import ProduceResponse
from tests.broker.kit import (
    PRODUCE_VERSION,
    TIMEOUT_S,
    ClosedByBrokerError,
    Wire,
    batch,
    produce_request,
    wait_until,
)

BATCH: Final = 7
LARGE_BYTES: Final = BATCH_BYTES_MAX // BATCH + 1
LARGE_SHARE: Final = 0.02
IN_FLIGHT_MAX: Final = 5
GONE: Final = (ClosedByBrokerError, BrokenPipeError, ConnectionError, TimeoutError)


def padded(number: int) -> bytes:
    """The number as a value of some size, always the same one. A few make their batch too large for the journal."""
    chance = Random(number // BATCH)
    size_bytes = LARGE_BYTES if chance.random() < LARGE_SHARE else chance.choice([0, 0, 0, 100, 3_000])
    return b"%d" % number + b" " * size_bytes


class NumberedProducer(ABC):
    """Writes 0, 1, 2 ... to each partition until it is told to finish; `acknowledged` counts per partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.acknowledged = [0] * partitions
        self._finishing = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def wait_for_more(self) -> None:
        """Waits until something new is acknowledged."""
        before = sum(self.acknowledged)
        wait_until(lambda: self._failure is not None or sum(self.acknowledged) > before)
        self._raise_failure()

    def finish(self) -> list[int]:
        """Waits until everything written is acknowledged; how much that is, per partition."""
        self._finishing.set()
        self._thread.join(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), "it never came to an end"
        self._raise_failure()
        return self.acknowledged

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self._failure = error

    @abstractmethod
    def _produce(self) -> None: ...


class PlainProducer(NumberedProducer):
    """Idempotent over bare sockets: up to five batches in flight, all of them sent again after a break."""

    def _produce(self) -> None:
        with self._connect() as wire:
            answer = wire.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse)
        self._producer_id = answer.producer_id
        self._next = [0] * self.partitions
        self._in_flight: deque[tuple[int, int]] = deque()  # partition, first number
        while not self._finishing.is_set() or self._in_flight:
            with suppress(*GONE), self._connect() as wire:
                for partition, first in self._in_flight:
                    self._send(wire, partition, first)
                self._stream(wire)

    def _stream(self, wire: Wire) -> None:
        turn = 0
        while True:
            while len(self._in_flight) < IN_FLIGHT_MAX and not self._finishing.is_set():
                turn += 1
                partition = (turn // IN_FLIGHT_MAX) % self.partitions
                self._in_flight.append((partition, self._next[partition]))
                self._send(wire, partition, self._next[partition])
                self._next[partition] += BATCH
            if not self._in_flight:
                return
            partition, first = self._in_flight[0]
            answer = wire.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]
            told = (answer.index, ErrorCode(answer.error_code), answer.base_offset)
            assert told == (partition, ErrorCode.NONE, first), f"{told} for {first} of partition {partition}"
            self._in_flight.popleft()
            self.acknowledged[partition] = first + BATCH

    def _send(self, wire: Wire, partition: int, first: int) -> None:
        values = [padded(number) for number in range(first, first + BATCH)]
        records = batch(*values, producer_id=self._producer_id, sequence=first)
        wire.send(produce_request(self.topic, records, partition=partition), PRODUCE_VERSION)

    def _connect(self) -> Wire:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return Wire(self.bootstrap)
            except ConnectionError:
                assert time.monotonic() < deadline, "the broker does not come back"
                time.sleep(0.005)


class LibrdkafkaProducer(NumberedProducer):
    """confluent-kafka with idempotence on, which sends again by itself."""

    def _produce(self) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": int(3 * TIMEOUT_S * 1000),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "log_level": 2,
            }
        )
        number = 0
        while not self._finishing.is_set():
            value = padded(number)
            for partition in range(self.partitions):
                producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            number += 1
            producer.poll(0 if len(producer) < 2_000 else 0.01)
            while len(producer) > 20_000 and not self._finishing.is_set():
                producer.poll(0.01)
        assert producer.flush(3 * TIMEOUT_S) == 0

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self._failure = AssertionError(f"delivery failed: {error}")
            self._finishing.set()
            return
        partition = message.partition()
        assert partition is not None
        self.acknowledged[partition] += 1
