"""Parts that the tests of streams share."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import confluent_kafka

from oncestream.client.settings import NO_OPTIONS

T = TypeVar("T")

TIMEOUT_S: Final = 60.0
NUMBERS: Final = itertools.count()


def new_path(kind: str = "pump") -> str:
    return f"/tests/{kind}-{os.getpid()}-{next(NUMBERS)}"


def soon(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    """What `look` finds once it is good: a cluster takes a moment to tell all its parts."""
    deadline = time.monotonic() + TIMEOUT_S
    while not good(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def produce(
    bootstrap: str,
    kafka_topic: str,
    values: Iterable[str],
    settings: Mapping[str, str] = NO_OPTIONS,
    *,
    timestamp_ms: int = 0,
) -> None:
    """Raises the KafkaException of the first value that is not taken."""
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": "30000", **settings}
    )
    for value in values:
        producer.produce(
            kafka_topic,
            value,
            timestamp=timestamp_ms,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    if failures:
        raise confluent_kafka.KafkaException(failures[0])


def consume(
    bootstrap: str, kafka_topic: str, group: str, count: int, settings: Mapping[str, str] = NO_OPTIONS
) -> list[str]:
    """Raises the KafkaException of the first error; what was read is committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **settings,
        }
    )
    values: list[str] = []
    try:
        consumer.subscribe([kafka_topic])
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count:
            assert time.monotonic() < deadline, values
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            values.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values
