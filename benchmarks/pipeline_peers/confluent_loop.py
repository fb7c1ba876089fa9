"""The job by hand, on confluent-kafka, one transaction every 100 ms: ... BOOTSTRAP SOURCE SINK NAME."""

from __future__ import annotations

import sys
import time
from typing import Final

from confluent_kafka import Consumer, Producer

TRANSACTION_S: Final = 0.1
RECORDS_MAX: Final = 10_000


def main() -> None:
    bootstrap, source, sink, name = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.init_transactions()
    consumer.subscribe([source])
    while True:
        copy_once(consumer, producer, sink)


def copy_once(consumer: Consumer, producer: Producer, sink: str) -> None:
    """One transaction: what came within its time."""
    deadline = time.monotonic() + TRANSACTION_S
    begun = False
    while (left_s := deadline - time.monotonic()) > 0:
        # A long wait for many records would keep the first of them back.
        messages = consumer.consume(RECORDS_MAX, min(left_s, 0.01))
        if messages and not begun:
            producer.begin_transaction()
            begun = True
        for message in messages:
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            producer.produce(sink, value.upper(), partition=partition)
        producer.poll(0)
    if begun:
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()


if __name__ == "__main__":
    main()
