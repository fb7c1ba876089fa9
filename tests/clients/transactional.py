"""Isolated readers and transactional copiers of three client libraries, in one vocabulary."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import Enum
from typing import Any, Final, NamedTuple

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka import TopicPartition

from tests.clients.client import TIMEOUT_S

BATCH: Final = 10
POLL_S: Final = 0.2


class Ending(Enum):
    """How a copier's transaction ends: a crash leaves it open."""

    COMMIT = "commit"
    ABORT = "abort"
    CRASH = "crash"


class View(NamedTuple):
    """A partition as a reader finds it: its end for this reader, what comes before, and where that leaves it."""

    end: int
    offsets: list[int]
    values: list[bytes]
    position: int


Read = Callable[[str, str, int, bool], View]
Copy = Callable[[str, str, str, str, Sequence[Ending]], None]


def confluent_read(bootstrap: str, topic: str, partition: int, committed: bool) -> View:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": _isolation(committed),
    }
    where = TopicPartition(topic, partition, 0)
    view: list[tuple[int, bytes]] = []
    with closing(confluent_kafka.Consumer(config)) as consumer:
        _, end = consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
        consumer.assign([where])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no end of the partition in sight"
            if message.error():
                return _view(end, view, int(message.offset() or 0))
            view.append((int(message.offset() or 0), message.value() or b""))


def kafka_python_read(bootstrap: str, topic: str, partition: int, committed: bool) -> View:
    where = kafka.TopicPartition(topic, partition)
    view: list[tuple[int, bytes]] = []
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=_isolation(committed))
    with closing(consumer):
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        consumer.seek(where, 0)
        deadline = time.monotonic() + TIMEOUT_S
        while consumer.position(where) < end:
            assert time.monotonic() < deadline, "no end of the partition in sight"
            for records in consumer.poll(timeout_ms=100).values():
                view += [(record.offset, record.value) for record in records]
        return _view(end, view, consumer.position(where))


def aiokafka_read(bootstrap: str, topic: str, partition: int, committed: bool) -> View:
    async def work() -> View:
        where = aiokafka.TopicPartition(topic, partition)
        view: list[tuple[int, bytes]] = []
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=_isolation(committed)
        ) as consumer:
            consumer.assign([where])
            end = (await consumer.end_offsets([where]))[where]
            consumer.seek(where, 0)
            while await consumer.position(where) < end:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    view += [(record.offset, record.value) for record in records]
            return _view(end, view, await consumer.position(where))

    return asyncio.run(asyncio.wait_for(work(), TIMEOUT_S))


def confluent_copy(bootstrap: str, source: str, sink: str, name: str, endings: Sequence[Ending]) -> None:
    _confluent_copy(bootstrap, source, sink, name, endings, "classic")


def confluent_copy_by_new_protocol(
    bootstrap: str, source: str, sink: str, name: str, endings: Sequence[Ending]
) -> None:
    _confluent_copy(bootstrap, source, sink, name, endings, "consumer")


def _confluent_copy(
    bootstrap: str, source: str, sink: str, name: str, endings: Sequence[Ending], protocol: str
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    with closing(consumer):
        consumer.subscribe([source])
        for ending in endings:
            messages = _until_some(lambda: consumer.consume(BATCH, POLL_S))
            producer.begin_transaction()
            for message in messages:
                producer.produce(sink, message.value(), partition=message.partition())
            ends = {m.partition(): m.offset() + 1 for m in messages}
            producer.send_offsets_to_transaction(
                [TopicPartition(source, partition, offset) for partition, offset in ends.items()],
                consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            if ending is Ending.COMMIT:
                producer.commit_transaction(TIMEOUT_S)
            elif ending is Ending.ABORT:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.flush(TIMEOUT_S)


def kafka_python_copy(bootstrap: str, source: str, sink: str, name: str, endings: Sequence[Ending]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    consumer = kafka.KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    with closing(consumer):
        for ending in endings:
            polled = _until_some(lambda: consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=BATCH))
            producer.begin_transaction()
            for where, records in polled.items():
                for record in records:
                    producer.send(sink, record.value, partition=where.partition)
            ends = {
                where: kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for where, records in polled.items()
            }
            producer.send_offsets_to_transaction(ends, name)
            if ending is Ending.COMMIT:
                producer.commit_transaction()
            elif ending is Ending.ABORT:
                producer.abort_transaction()
            else:
                producer.flush(TIMEOUT_S)
    producer.close(timeout=0)  # at once: it would abort what is open


def aiokafka_copy(bootstrap: str, source: str, sink: str, name: str, endings: Sequence[Ending]) -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        async with aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer:
            for ending in endings:
                polled: dict[Any, list[Any]] = {}
                while not polled:
                    polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
                await producer.begin_transaction()
                for where, records in polled.items():
                    for record in records:
                        await producer.send(sink, record.value, partition=where.partition)
                ends = {where: records[-1].offset + 1 for where, records in polled.items()}
                await producer.send_offsets_to_transaction(ends, name)
                if ending is Ending.COMMIT:
                    await producer.commit_transaction()
                elif ending is Ending.ABORT:
                    await producer.abort_transaction()
                else:
                    await producer.flush()
        await producer.stop()

    asyncio.run(asyncio.wait_for(work(), TIMEOUT_S))


READERS: Final[dict[str, Read]] = {
    "confluent-kafka": confluent_read,
    "kafka-python": kafka_python_read,
    "aiokafka": aiokafka_read,
}
COPIERS: Final[dict[str, Copy]] = {
    "confluent-kafka": confluent_copy,
    "confluent-kafka, group.protocol=consumer": confluent_copy_by_new_protocol,
    "kafka-python": kafka_python_copy,
    "aiokafka": aiokafka_copy,
}


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _view(end: int, seen: list[tuple[int, bytes]], position: int) -> View:
    return View(end, [offset for offset, _ in seen], [value for _, value in seen], position)


def _until_some(poll: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if found := poll():
            return found
    raise AssertionError("nothing came")
