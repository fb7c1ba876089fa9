"""What tests of the source stand on: topics written by confluent-kafka, and readers called as Spark calls them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka import admin as typed_admin

from oncestream.client.cluster import cluster_of
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.spark.source_options import stream_options
from oncestream.spark.stream_reader import StreamReader

admin: Any = typed_admin
T = TypeVar("T")
TIMEOUT_S = 30


class Log:
    """A cluster with topics made for one test each."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = admin.AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self._done(self._admin.create_topics([admin.NewTopic(name, partitions, 1, config=settings)]))
        wait_for(lambda: name in self._admin.list_topics(timeout=TIMEOUT_S).topics)
        return name

    def drop(self, topic: str) -> None:
        self._done(self._admin.delete_topics([topic]))
        wait_for(lambda: topic not in self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def widen(self, topic: str, partitions: int) -> None:
        self._done(self._admin.create_partitions([admin.NewPartitions(topic, partitions)]))
        wait_for(
            lambda: (
                len(self._admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == partitions
            )
        )

    def forget_before(self, topic: str, offset: int, partition: int = 0) -> None:
        self._done(self._admin.delete_records([confluent_kafka.TopicPartition(topic, partition, offset)]))

    def write(
        self,
        topic: str,
        values: Iterable[str],
        *,
        partition: int = 0,
        key: str | None = None,
        time_ms: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        for value in values:
            self._produce(self._producer, topic, value, partition, key, time_ms, headers)
        assert self._producer.flush(TIMEOUT_S) == 0

    def transaction(
        self, topic: str, values: Iterable[str], *, partition: int = 0, ends: str = "commit"
    ) -> Producer:
        """Written in one transaction that is committed, aborted or left open."""
        name = f"tx-{uuid.uuid4().hex[:12]}"
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name, "linger.ms": 0})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for value in values:
            self._produce(producer, topic, value, partition)
        assert producer.flush(TIMEOUT_S) == 0
        if ends == "commit":
            producer.commit_transaction(TIMEOUT_S)
        if ends == "abort":
            producer.abort_transaction(TIMEOUT_S)
        if ends != "open":
            wait_for(lambda: self._is_stable(TopicPartition(topic, partition)))
        return producer

    def options(self, topic: str | None = None, **options: object) -> dict[str, str]:
        """The source's options, keys in lower case as Spark gives them."""
        chosen = {"subscribe": topic} if topic else {}
        named = {key.replace("__", "."): str(value) for key, value in options.items()}
        merged = {"kafka.bootstrap.servers": self.bootstrap, **chosen, **named}
        return {key.lower(): value for key, value in merged.items()}

    def reader(self, topic: str | None = None, **options: object) -> StreamReader:
        return StreamReader(stream_options(self.options(topic, **options)))

    def _is_stable(self, partition: TopicPartition) -> bool:
        """Whether the markers of what was ended are written: the coordinator does that after its answer."""
        cluster, latest = cluster_of(ClientSettings.of(self.bootstrap)), {partition: LATEST}
        return list_offsets(cluster, latest) == list_offsets(cluster, latest, read_committed=False)

    @staticmethod
    def _produce(
        producer: Producer,
        topic: str,
        value: str,
        partition: int,
        key: str | None = None,
        time_ms: int = 0,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        while True:
            try:
                producer.produce(
                    topic, value, key, partition=partition, timestamp=time_ms, headers=list(headers)
                )
                return
            except BufferError:
                producer.poll(1)

    @staticmethod
    def _done(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(TIMEOUT_S)


def batch(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    """The rows of one batch, by whichever way the reader chose."""
    tasks = reader.partitions(start, end)
    rows = reader.getCache(start, end)
    if rows is None:
        rows = (rows for task in tasks for rows in reader.read(task))
    found = list(rows)
    return pa.Table.from_batches(found) if found else pa.table({"value": [], "offset": [], "partition": []})


def values(rows: pa.Table) -> list[str]:
    return [value.decode() for value in rows.column("value").to_pylist()]


def offsets(offset: dict[str, Any], topic: str) -> dict[str, int]:
    found: dict[str, int] = offset["offsets"].get(topic, {})
    return found


def wait_for(condition: Callable[[], T | None]) -> T:
    """The first true answer, or a failure at the deadline."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)
    return found


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Ends of the log, markers and what is not committed included."""
    # A reader of committed records would be told the last stable offsets.
    settings = {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": "read_uncommitted"}
    consumer: Any = confluent_kafka.Consumer(settings)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while True:
            try:
                partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
                return {
                    at: consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, at), TIMEOUT_S)[
                        1
                    ]
                    for at in partitions
                }
            except confluent_kafka.KafkaException:
                # A topic just made: its leader may not know of it yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    finally:
        consumer.close()
