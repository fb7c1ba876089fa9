"""Parts that the tests of producers and consumers share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import confluent_kafka

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.failures import KafkaError
from oncestream.messaging.record import Record
from tests.client.kit import new_name

DEADLINE_S: Final = 60.0


def new_topic(bootstrap: str, partitions: int = 1, name: str | None = None, **configs: str) -> str:
    topic = name or new_name("messaging")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    with closing(Cluster(ClientSettings.of(bootstrap))) as cluster:
        create_topics(cluster, [NewTopic(topic, partitions, configs=settings)])
    return topic


def take(consumer: Consumer, count: int) -> list[Record]:
    """The next `count` records, by poll."""
    records: list[Record] = []
    for _ in until_deadline(lambda: f"{len(records)} of {count} records came"):
        records.extend(consumer.poll(0.2))
        if len(records) >= count:
            return records
    raise AssertionError


def read_all(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[Record]:
    """What an independent reader sees: `count` records, and that no more are there."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.partition.eof": True,
        "isolation.level": isolation,
    }
    records: list[Record] = []
    with closing(confluent_kafka.Consumer(config)) as consumer:
        partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
        at_end: set[int] = set()
        for _ in until_deadline(lambda: f"{len(records)} of {count} records came"):
            message: Any = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                records.append(_record(message))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                at_end.add(message.partition())
            if len(records) >= count and len(at_end) == len(partitions):
                break
    assert len(records) == count
    return records


def _record(message: Any) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def values(records: list[Record]) -> list[str]:
    return [record.value.decode() for record in records]


def until_deadline(failure: Callable[[], str]) -> Iterator[None]:
    """Turns of a loop that waits for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        yield
    raise AssertionError(failure())
