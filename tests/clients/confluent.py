"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import Message as ConfluentMessage
from confluent_kafka import admin as typed_admin

from tests.clients.client import REQUEST_BYTES_MAX, TIMEOUT_S, Cluster, Message, Received, RefusedError

# The package exports no name of this module in the eyes of mypy.
admin: Any = typed_admin
NOTICE = 5


class Confluent:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": NOTICE})

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        acks: int = -1,
        idempotent: bool = True,
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": compression,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": REQUEST_BYTES_MAX,
                "linger.ms": 5,
            }
        )
        offsets = [-1] * len(messages)
        failures: list[KafkaError] = []
        for index, message in enumerate(messages):

            def delivered(error: KafkaError | None, done: ConfluentMessage, index: int = index) -> None:
                if error is not None:
                    failures.append(error)
                    return
                offsets[index] = int(done.offset() or 0)

            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                timestamp=message.timestamp_ms or 0,
                headers=list(message.headers),
                on_delivery=delivered,
            )
        assert producer.flush(TIMEOUT_S) == 0
        if failures:
            raise RefusedError(failures[0].code())
        return offsets

    def consume(self, topic: str, positions: Mapping[int, int], count: int) -> list[Received]:
        with self._consumer("unused") as consumer:
            consumer.assign([TopicPartition(topic, p, offset) for p, offset in positions.items()])
            return _poll(consumer, count)

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Received]:
        with self._consumer(group) as consumer:
            consumer.subscribe([topic])
            received = _poll(consumer, count)
            consumer.commit(asynchronous=False)
            return received

    def committed(self, topic: str, group: str, partition: int) -> int | None:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        answer = self._admin.list_consumer_group_offsets([wanted])[group].result(TIMEOUT_S)
        offset = answer.topic_partitions[0].offset
        return None if offset < 0 else offset

    def earliest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, admin.OffsetSpec.earliest())

    def latest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, admin.OffsetSpec.latest())

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        offset = self._offset(topic, partition, admin.OffsetSpec.for_timestamp(timestamp_ms))
        return None if offset < 0 else offset

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        new = admin.NewTopic(topic, partitions, replication_factor, config=dict(config or {}))
        with _refusals():
            self._admin.create_topics([new])[topic].result(TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def create_partitions(self, topic: str, total: int) -> None:
        with _refusals():
            self._admin.create_partitions([admin.NewPartitions(topic, total)])[topic].result(TIMEOUT_S)

    def topics(self) -> dict[str, int]:
        listed = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def topic_config(self, topic: str) -> dict[str, str | None]:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        with _refusals():
            entries = self._admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        return {name: entry.value for name, entry in entries.items()}

    def alter_config(self, topic: str, config: Mapping[str, str]) -> None:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic, set_config=dict(config))
        with _refusals(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # programs that still use it must work
            self._admin.alter_configs([resource])[resource].result(TIMEOUT_S)

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._incremental(topic, config, admin.AlterConfigOpType.SET)

    def unset_config(self, topic: str, name: str) -> None:
        self._incremental(topic, {name: None}, admin.AlterConfigOpType.DELETE)

    def append_config(self, topic: str, name: str, value: str) -> None:
        self._incremental(topic, {name: value}, admin.AlterConfigOpType.APPEND)

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        wanted = TopicPartition(topic, partition, before_offset)
        with _refusals():
            answer = self._admin.delete_records([wanted])[wanted].result(TIMEOUT_S)
        return int(answer.low_watermark)

    def cluster(self) -> Cluster:
        answer = self._admin.describe_cluster().result(TIMEOUT_S)
        nodes = [(node.id, node.host, node.port) for node in answer.nodes]
        return Cluster(answer.cluster_id, answer.controller.id, nodes)

    @contextmanager
    def _consumer(self, group: str) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _offset(self, topic: str, partition: int, spec: Any) -> int:
        wanted = TopicPartition(topic, partition)
        with _refusals():
            answer = self._admin.list_offsets({wanted: spec})[wanted].result(TIMEOUT_S)
        return int(answer.offset)

    def _incremental(self, topic: str, config: Mapping[str, str | None], op: Any) -> None:
        entries: list[Any] = [
            admin.ConfigEntry(name, value, incremental_operation=op) for name, value in config.items()
        ]
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        with _refusals():
            self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def _poll(consumer: Consumer, count: int) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(received) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise RefusedError(error.code())
        received.append(_received(message))
    return received


def _received(message: Any) -> Received:
    return Received(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise RefusedError(error.args[0].code()) from error
