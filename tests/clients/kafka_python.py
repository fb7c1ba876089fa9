"""kafka-python."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource
from kafka.errors import BrokerResponseError

from tests.clients.client import REQUEST_BYTES_MAX, TIMEOUT_S, Cluster, Message, Received, RefusedError


class KafkaPython:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        acks: int = -1,
        idempotent: bool = True,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if compression == "none" else compression,
            acks=acks,
            enable_idempotence=idempotent,
            max_request_size=REQUEST_BYTES_MAX,
            linger_ms=5,
        )
        with closing(producer), _refusals():
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            return [future.get(timeout=TIMEOUT_S).offset for future in sent]

    def consume(self, topic: str, positions: Mapping[int, int], count: int) -> list[Received]:
        with self._consumer(None) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in positions])
            for partition, offset in positions.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            return _poll(consumer, count)

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Received]:
        with self._consumer(group) as consumer:
            consumer.subscribe([topic])
            received = _poll(consumer, count)
            consumer.commit()
            return received

    def committed(self, topic: str, group: str, partition: int) -> int | None:
        with self._consumer(group) as consumer:
            offset: int | None = consumer.committed(TopicPartition(topic, partition))
            return offset

    def earliest(self, topic: str, partition: int = 0) -> int:
        wanted = TopicPartition(topic, partition)
        with self._consumer(None) as consumer:
            return int(consumer.beginning_offsets([wanted])[wanted])

    def latest(self, topic: str, partition: int = 0) -> int:
        wanted = TopicPartition(topic, partition)
        with self._consumer(None) as consumer:
            return int(consumer.end_offsets([wanted])[wanted])

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        wanted = TopicPartition(topic, partition)
        with self._consumer(None) as consumer:
            found = consumer.offsets_for_times({wanted: timestamp_ms})[wanted]
        return None if found is None else int(found.offset)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        options = {
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": dict(config or {}),
        }
        with self._admin() as admin, _refusals():
            admin.create_topics({topic: options})

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin, _refusals():
            admin.delete_topics([topic])

    def create_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin, _refusals():
            admin.create_partitions({topic: total})

    def topics(self) -> dict[str, int]:
        with self._admin() as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}

    def topic_config(self, topic: str) -> dict[str, str | None]:
        with self._admin() as admin, _refusals():
            answer = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
        return {name: entry["value"] for name, entry in answer["topic"][topic].items()}

    def alter_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._alter(topic, dict(config), incremental=False)

    def set_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._alter(topic, dict(config), incremental=True)

    def unset_config(self, topic: str, name: str) -> None:
        self._alter(topic, {name: (AlterConfigOp.DELETE, None)}, incremental=True)

    def append_config(self, topic: str, name: str, value: str) -> None:
        self._alter(topic, {name: (AlterConfigOp.APPEND, value)}, incremental=True)

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        wanted = TopicPartition(topic, partition)
        with self._admin() as admin, _refusals():
            return int(admin.delete_records({wanted: before_offset})[wanted]["low_watermark"])

    def cluster(self) -> Cluster:
        with self._admin() as admin:
            answer = admin.describe_cluster()
        nodes = [(node["broker_id"], node["host"], node["port"]) for node in answer["brokers"]]
        return Cluster(answer["cluster_id"], answer["controller_id"], nodes)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        with closing(KafkaAdminClient(bootstrap_servers=self._bootstrap)) as admin:
            yield admin

    @contextmanager
    def _consumer(self, group: str | None) -> Iterator[Any]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            check_crcs=True,
        )
        with closing(consumer):
            yield consumer

    def _alter(self, topic: str, config: dict[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource("TOPIC", topic, config)
        with self._admin() as admin:
            answer = admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
        said = answer["topic"][topic]
        if said != "OK":
            code = re.match(r"\[Error (\d+)\]", said)
            assert code is not None, said
            raise RefusedError(int(code[1]))


def _poll(consumer: Any, count: int) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(received) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000).values():
            received.extend(
                Received(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                for r in records
            )
    return received


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except BrokerResponseError as error:
        raise RefusedError(error.errno) from error
