"""The demo's view of Kafka, by an independent client (confluent-kafka): topics, URLs in, rows out, offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.demo_files import File

INPUT: Final = "files-with-transactions"
OUTPUT: Final = "transactions"
DEAD: Final = "transactions.dead"
GROUP: Final = "load-files"
PARTITIONS: Final = 4
TIMEOUT_S: Final = 30.0


class Position(NamedTuple):
    partition: int
    offset: int


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)]).values():
        done.result(TIMEOUT_S)


def produce_urls(servers: str, address: str, files: list[File]) -> dict[Position, File]:
    """Produces the URLs of these files and returns where each came to stand."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    stands: dict[Position, File] = {}

    def deliver(file: File, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        stands[Position(message.partition() or 0, message.offset() or 0)] = file

    for number, file in enumerate(files):
        producer.produce(
            INPUT,
            f"{address}{file.path}",
            partition=number % PARTITIONS,
            on_delivery=lambda error, message, file=file: deliver(file, error, message),
        )
    if producer.flush(TIMEOUT_S):
        raise TimeoutError("the broker did not take the URLs in time")
    return stands


class Watcher:
    """Counts the rows of the output as they come: the committed ones, and all, open transactions included."""

    def __init__(self, servers: str) -> None:
        self._committed = _consumer(servers, "read_committed")
        self._all = _consumer(servers, "read_uncommitted")
        for consumer in (self._committed, self._all):
            consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])
        self.visible = self.written = 0

    def look(self) -> None:
        """Takes what has arrived; waits a moment where nothing has."""
        visible = _count(self._committed)
        written = _count(self._all)
        if not visible and not written:
            written = 0 if self._all.poll(0.01) is None else 1
        self.visible += visible
        self.written += written

    def close(self) -> None:
        self._committed.close()
        self._all.close()


def read_all(servers: str, topic: str) -> list[Record]:
    """Every committed record of a topic, read anew from its beginning."""
    records: list[Record] = []
    with closing(_consumer(servers, "read_committed", **{"enable.partition.eof": True})) as consumer:
        partitions = set(consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        deadline = time.monotonic() + TIMEOUT_S
        while partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} could not be read to its end in time")
            for message in consumer.consume(10_000, 0.05):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    partitions.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
    return records


def committed_positions(servers: str) -> dict[int, int]:
    """The group's committed offset of each input partition, 0 for none."""
    with closing(_consumer(servers, "read_uncommitted", **{"group.id": GROUP})) as consumer:
        asked = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
        return {each.partition: max(each.offset, 0) for each in consumer.committed(asked, TIMEOUT_S)}


def _consumer(servers: str, isolation: str, **more: object) -> Consumer:
    settings = {
        "bootstrap.servers": servers,
        "group.id": "demo",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 100,
    }
    return Consumer(settings | more)


def _count(consumer: Consumer) -> int:
    return sum(message.error() is None for message in consumer.consume(10_000, 0))


def _record(message: Message) -> Record:
    headers = {name: (value or b"").decode() for name, value in message.headers() or []}
    return Record(message.key(), message.value(), headers)
