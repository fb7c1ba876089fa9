"""The loads of transactions: each takes a running peer and gives its figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.loads import (
    NEVER_PAUSES,
    PARTITIONS,
    RUN_TIMEOUT_S,
    consume_by_librdkafka,
    new_name,
    produce_by_java,
    produce_by_librdkafka,
)
from benchmarks.peers import Peer, topic_on

TRANSACTION_MS: Final = 100
SHORT_TRANSACTION_MS: Final = 10
READ_ROUNDS: Final = 6
WARM_UP_TRANSACTIONS: Final = 10
CONSUMED_AT_ONCE: Final = 500
CONSUME_TIMEOUT_S: Final = 0.05
ERROR: Final = 3  # log level of librdkafka, which warns where Kafka's coordinator is loading still


def java_transactions(peer: Peer, records: int, size: int) -> tuple[float]:
    """Records per second of Kafka's ProducerPerformance in transactions of 100 ms."""
    with topic_on(peer, new_name(), PARTITIONS) as topic:
        return (_produce_in_transactions(peer, topic, records, size, TRANSACTION_MS),)


def isolation(peer: Peer, records: int, size: int) -> tuple[float, float, float]:
    """Records per second of a confluent-kafka consumer, read_committed and read_uncommitted, and their quotient.

    The topic is full of committed transactions; who reads first alternates.
    """
    rates: dict[str, list[float]] = {"read_committed": [], "read_uncommitted": []}
    with topic_on(peer, new_name(), PARTITIONS) as topic:
        _produce_in_transactions(peer, topic, records, size, SHORT_TRANSACTION_MS)
        for number in range(READ_ROUNDS):
            for level in rates if number % 2 else reversed(rates):
                rates[level].append(consume_by_librdkafka(peer, topic, records, level))
    committed, uncommitted = map(statistics.median, rates.values())
    return committed, uncommitted, committed / uncommitted


def tiny_transactions(peer: Peer, transactions: int, partitions: int) -> tuple[float]:
    """Transactions per second of one confluent-kafka producer: one record of 10 bytes to every partition each."""
    with topic_on(peer, new_name(), partitions) as topic:
        producer = _transactional_producer(peer)
        for number in range(-WARM_UP_TRANSACTIONS, transactions):
            if number == 0:
                began = time.perf_counter()
            producer.begin_transaction()
            for partition in range(partitions):
                producer.produce(topic, bytes(10), partition=partition)
            producer.commit_transaction(RUN_TIMEOUT_S)
        return (transactions / (time.perf_counter() - began),)


def consume_transform_produce(peer: Peer, records: int, size: int) -> tuple[float]:
    """Records per second through a confluent-kafka loop that commits records and offsets about every 100 ms.

    The clock runs from the first record that comes in to the last commit.
    """
    with (
        topic_on(peer, new_name(), PARTITIONS) as source,
        topic_on(peer, new_name(), PARTITIONS) as sink,
    ):
        produce_by_librdkafka(peer, source, records, size)
        producer = _transactional_producer(peer)
        consumer = _group_consumer(peer, source)
        first = consumer.consume(1, timeout=RUN_TIMEOUT_S)
        began, seen = time.perf_counter(), 0
        while seen < records:
            producer.begin_transaction()
            due = time.perf_counter() + TRANSACTION_MS / 1000
            seen += _copy(first, producer, sink)
            first = []
            while seen < records and time.perf_counter() < due:
                wanted = min(CONSUMED_AT_ONCE, records - seen)
                seen += _copy(consumer.consume(wanted, timeout=CONSUME_TIMEOUT_S), producer, sink)
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), RUN_TIMEOUT_S)
            producer.commit_transaction(RUN_TIMEOUT_S)
        took = time.perf_counter() - began
        places = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
        committed = sum(place.offset for place in consumer.committed(places, timeout=RUN_TIMEOUT_S))
        assert committed == records, f"{peer.name} has {committed} of {records} records committed"
        ends = [consumer.get_watermark_offsets(TopicPartition(sink, p))[1] for p in range(PARTITIONS)]
        assert sum(ends) > records, f"{peer.name} wrote {sum(ends)} of {records} records and their markers"
        consumer.close()
    return (records / took,)


def _copy(messages: Sequence[Message], producer: Producer, sink: str) -> int:
    for message in messages:
        value, partition = message.value(), message.partition()
        assert message.error() is None, str(message.error())
        assert value is not None
        assert partition is not None
        producer.produce(sink, value.swapcase(), partition=partition)
    return len(messages)


def _produce_in_transactions(peer: Peer, topic: str, records: int, size: int, duration_ms: int) -> float:
    options = ("--transactional-id", new_name(), "--transaction-duration-ms", str(duration_ms))
    return produce_by_java(peer, topic, records, size, *options)


def _transactional_producer(peer: Peer) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "transactional.id": new_name(),
            "queue.buffering.max.messages": 1_000_000,
            "log_level": ERROR,
        }
    )
    producer.init_transactions(RUN_TIMEOUT_S)
    return producer


def _group_consumer(peer: Peer, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": new_name(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **NEVER_PAUSES,
        }
    )
    consumer.subscribe([topic])
    return consumer
