"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError

from tests.clients.client import REQUEST_BYTES_MAX, TIMEOUT_S, Cluster, Message, Received, RefusedError

T = TypeVar("T")


class Aiokafka:
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
        async def work() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if compression == "none" else compression,
                acks=acks,
                enable_idempotence=idempotent,
                max_request_size=REQUEST_BYTES_MAX,
                linger_ms=5,
            )
            async with producer:
                sent = [await _send(producer, topic, message) for message in messages]
                done = await asyncio.gather(*sent)
            return [-1 if metadata is None else metadata.offset for metadata in done]

        return _run(work())

    def consume(self, topic: str, positions: Mapping[int, int], count: int) -> list[Received]:
        async def work() -> list[Received]:
            async with self._consumer(None) as consumer:
                consumer.assign([TopicPartition(topic, partition) for partition in positions])
                for partition, offset in positions.items():
                    consumer.seek(TopicPartition(topic, partition), offset)
                return await _poll(consumer, count)

        return _run(work())

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Received]:
        async def work() -> list[Received]:
            async with self._consumer(group) as consumer:
                consumer.subscribe([topic])
                received = await _poll(consumer, count)
                await consumer.commit()
                return received

        return _run(work())

    def committed(self, topic: str, group: str, partition: int) -> int | None:
        async def work() -> int | None:
            async with self._consumer(group) as consumer:
                offset: int | None = await consumer.committed(TopicPartition(topic, partition))
                return offset

        return _run(work())

    def earliest(self, topic: str, partition: int = 0) -> int:
        async def work() -> int:
            wanted = TopicPartition(topic, partition)
            async with self._consumer(None) as consumer:
                return int((await consumer.beginning_offsets([wanted]))[wanted])

        return _run(work())

    def latest(self, topic: str, partition: int = 0) -> int:
        async def work() -> int:
            wanted = TopicPartition(topic, partition)
            async with self._consumer(None) as consumer:
                return int((await consumer.end_offsets([wanted]))[wanted])

        return _run(work())

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        async def work() -> int | None:
            wanted = TopicPartition(topic, partition)
            async with self._consumer(None) as consumer:
                found = (await consumer.offsets_for_times({wanted: timestamp_ms}))[wanted]
            return None if found is None else int(found.offset)

        return _run(work())

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        async def work() -> None:
            new = NewTopic(topic, partitions, replication_factor, topic_configs=dict(config or {}))
            async with self._admin() as admin:
                answer = await admin.create_topics([new])
            _check(code for _, code, *_ in answer.topic_errors)

        _run(work())

    def delete_topic(self, topic: str) -> None:
        async def work() -> None:
            async with self._admin() as admin:
                answer = await admin.delete_topics([topic])
            _check(code for _, code, *_ in answer.topic_error_codes)

        _run(work())

    def create_partitions(self, topic: str, total: int) -> None:
        async def work() -> None:
            async with self._admin() as admin:
                await admin.create_partitions({topic: NewPartitions(total)})

        _run(work())

    def topics(self) -> dict[str, int]:
        async def work() -> dict[str, int]:
            async with self._admin() as admin:
                listed = await admin.describe_topics()
            return {topic["topic"]: len(topic["partitions"]) for topic in listed}

        return _run(work())

    def topic_config(self, topic: str) -> dict[str, str | None]:
        async def work() -> dict[str, str | None]:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            async with self._admin() as admin:
                (answer,) = await admin.describe_configs([resource])
            ((code, _, _, _, entries),) = answer.resources
            _check([code])
            return {name: value for name, value, *_ in entries}

        return _run(work())

    def alter_config(self, topic: str, config: Mapping[str, str]) -> None:
        async def work() -> None:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
            async with self._admin() as admin:
                (answer,) = await admin.alter_configs([resource])
            _check(code for code, *_ in answer.resources)

        _run(work())

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        async def work() -> int:
            wanted = TopicPartition(topic, partition)
            async with self._admin() as admin:
                answer = await admin.delete_records({wanted: RecordsToDelete(before_offset)})
            return int(answer[wanted])

        return _run(work())

    def cluster(self) -> Cluster:
        async def work() -> Cluster:
            async with self._admin() as admin:
                answer = await admin.describe_cluster()
            nodes = [(node["node_id"], node["host"], node["port"]) for node in answer["brokers"]]
            return Cluster(answer["cluster_id"], answer["controller_id"], nodes)

        return _run(work())

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def _consumer(self, group: str | None) -> Any:
        return AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            check_crcs=True,
        )


async def _send(producer: Any, topic: str, message: Message) -> Any:
    return await producer.send(
        topic,
        value=message.value,
        key=message.key,
        headers=list(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp_ms,
    )


async def _poll(consumer: Any, count: int) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(received) < count and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=1000)).values():
            received.extend(
                Received(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
                for r in records
            )
    return received


def _check(codes: Any) -> None:
    for code in codes:
        if code:
            raise RefusedError(code)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(asyncio.wait_for(work, 2 * TIMEOUT_S))
    except BrokerResponseError as error:
        raise RefusedError(error.errno) from error
