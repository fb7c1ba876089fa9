"""Parts that the client's tests share: rows, topics, an independent reader and writer."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import confluent_kafka
import pyarrow as pa

from oncestream.client.admin import NewTopic, create_topics, delete_topics
from oncestream.client.cluster import Cluster
from oncestream.client.inspection import OPEN, describe_transactions
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.reading import read_range
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer, Transactions
from oncestream.client.writing import Writer
from tests.broker import kit

TIMEOUT_S: Final = 30.0
NAMES: Final = itertools.count()

wait_until = partial(kit.wait_until, timeout_s=60.0)


def new_name(kind: str = "client") -> str:
    return f"{kind}-{os.getpid()}-{next(NAMES)}"


def impatient(bootstrap: str, **settings: str) -> Cluster:
    """Makes one attempt, however long that takes, and repeats nothing: for what is to fail, and for nothing else."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Cluster(ClientSettings.of(bootstrap, {"default.api.timeout.ms": "1", **named}))


def new_topic(cluster: Cluster, partitions: int = 1, **configs: str) -> str:
    name = new_name()
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    create_topics(cluster, [NewTopic(name, partitions, configs=settings)])
    return name


def remove_topic(cluster: Cluster, topic: str) -> None:
    """A node of Apache Kafka hears of it from its controller, a moment after the answer."""
    delete_topics(cluster, [topic])
    wait_until(lambda: topic not in cluster.topics_matching(topic))
    cluster.forget_leaders([topic])  # which it was told again meanwhile


def rows_of(values: Iterable[str]) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([value.encode() for value in values], pa.binary())})


def numbered(count: int, prefix: str = "v") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def values_in(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [value.as_py().decode() for batch in batches for value in batch.column("value")]


def read_all(cluster: Cluster, partition: TopicPartition, *, read_committed: bool = True) -> list[str]:
    """Values of the whole partition, once no open transaction holds anything back."""
    end = list_offsets(cluster, {partition: LATEST}, read_committed=False)[partition]
    assert end is not None
    return values_in(read_range(cluster, partition, 0, end, read_committed=read_committed))


def confluent_read(bootstrap: str, topic: str, partitions: Sequence[int], count: int) -> list[str]:
    """What an independent read_committed consumer sees: `count` values, and that no more come."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": new_name("reader"),
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
    values: list[str] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < count or len(at_end) < len(partitions):
        assert time.monotonic() < deadline, f"{len(values)} of {count} values came"
        message = consumer.poll(0.1)
        if message is None:
            continue
        error, partition, value = message.error(), message.partition(), message.value()
        if error is None:
            values.append((value or b"").decode())
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            at_end.add(partition or 0)
    consumer.close()
    return values


class Driver:
    """Runs transactions, and writes in them."""

    def __init__(self, cluster: Cluster, name: str | None = None, timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.name = name or new_name()
        self.transactions = Transactions(cluster, self.name, timeout_ms)
        self.transactions.start()

    def write(self, here: TopicPartition, values: list[str], producer: Producer | None = None) -> None:
        if producer is None:
            self.transactions.add_partitions([here])
        writer = Writer(
            self.cluster, producer=producer or self.transactions.producer, transactional_id=self.name
        )
        writer.write(here, rows_of(values))
        writer.flush()

    def wait_for_markers(self) -> None:
        """A commit is answered before its markers are written."""
        wait_until(lambda: describe_transactions(self.cluster, [self.name])[0].state not in OPEN)


def write(cluster: Cluster, here: TopicPartition, values: list[str]) -> None:
    """Outside of any transaction."""
    writer = Writer(cluster, producer=None)
    writer.write(here, rows_of(values))
    writer.flush()


@contextmanager
def live_consumer(
    bootstrap: str, group: str, topic: str, **settings: str
) -> Iterator[confluent_kafka.Consumer]:
    """A member of the group, with its partitions assigned."""
    options = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, **options})
    joined: list[object] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: joined.extend(partitions))
    deadline = time.monotonic() + TIMEOUT_S
    while not joined:
        assert time.monotonic() < deadline, "no partition was assigned"
        consumer.poll(0.1)
    try:
        yield consumer
    finally:
        consumer.close()
