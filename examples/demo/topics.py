"""The demo's view of Kafka, by an independent client (confluent-kafka): topics, URLs in, rows out, offsets."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.demo.files import File

INPUT: Final = "files-with-transactions"
OUTPUT: Final = "transactions"
DEAD: Final = "transactions.dead"
GROUP: Final = "load-files"
PARTITIONS: Final = 4
TIMEOUT_S: Final = 30.0
ROWS_AT_ONCE: Final = 10_000
WAIT_S: Final = 0.005
QUIET_S: Final = 0.5


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
            on_delivery=partial(deliver, file),
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
        self.visible = self.written = self._abandoned = 0

    @property
    def uncommitted(self) -> int:
        """Rows of transactions that are open now."""
        return max(0, self.written - self.visible - self._abandoned)

    def look(self) -> bool:
        """Takes what has arrived, or waits a moment for it; whether there was anything."""
        written = _count(self._all.consume(ROWS_AT_ONCE, 0))
        visible = _count(self._committed.consume(ROWS_AT_ONCE, 0))
        if not visible and not written:
            written = _count(self._all.consume(1, WAIT_S))
        self.visible += visible
        self.written += written
        return bool(visible or written)

    def catch_up(self) -> None:
        """Until nothing more arrives."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            if self.look():
                quiet_since = time.monotonic()

    def abandon(self) -> int:
        """The writer is dead: what it left uncommitted never becomes visible. Returns how many rows."""
        rows = self.uncommitted
        self._abandoned += rows
        return rows

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
            for message in consumer.consume(ROWS_AT_ONCE, 0.05):
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


def _count(messages: list[Message]) -> int:
    return sum(message.error() is None for message in messages)


def _record(message: Message) -> Record:
    headers = dict(cast("list[tuple[str, bytes]]", message.headers() or []))
    return Record(message.key(), message.value(), {name: value.decode() for name, value in headers.items()})
