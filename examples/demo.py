"""`make demo`: start the broker, write and read through a real Kafka client, kill it, and look again."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.progress import track
from rich.table import Table

from oncestream import Broker

RECORDS = 50_000
PARTITIONS = 4
TOPIC = "transactions"


def main() -> None:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="oncestream-demo-") as folder:
        data = Path(folder)
        started = time.perf_counter()
        broker = Broker(data, process=True).start()
        console.print(
            f"broker up on [bold]{broker.bootstrap_servers}[/] in {time.perf_counter() - started:.2f} s"
        )
        create_topic(broker.bootstrap_servers)
        acknowledged = produce(broker.bootstrap_servers)
        console.print(f"{acknowledged:,} records acknowledged, each on the disk; now the broker gets SIGKILL")
        broker.kill()
        started = time.perf_counter()
        with Broker(data, process=True) as again:
            console.print(f"up again after recovery in {time.perf_counter() - started:.2f} s")
            counts, values = consume(again.bootstrap_servers, acknowledged)
        report(console, acknowledged, counts, values)


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        done.result(10)


def produce(servers: str) -> int:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    acknowledged = 0

    def on_delivery(error: object, _message: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            raise KafkaException(error)
        acknowledged += 1

    for number in track(range(RECORDS), description="producing"):
        producer.produce(TOPIC, key=f"card-{number % 97}", value=str(number), on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(30)
    return acknowledged


def consume(servers: str, expected: int) -> tuple[dict[int, int], list[int]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "demo", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    counts = dict.fromkeys(range(PARTITIONS), 0)
    values: list[int] = []
    deadline = time.monotonic() + 30
    while len(values) < expected and time.monotonic() < deadline:
        for message in consumer.consume(5000, 0.2):
            counts[message.partition() or 0] += 1
            values.append(int(message.value() or b"-1"))
    consumer.close()
    return counts, values


def report(console: Console, acknowledged: int, counts: dict[int, int], values: list[int]) -> None:
    table = Table(title="what came out after the crash")
    table.add_column("partition", justify="right")
    table.add_column("records", justify="right")
    for partition, count in counts.items():
        table.add_row(str(partition), f"{count:,}")
    console.print(table)
    missing = acknowledged - len(set(values))
    doubled = len(values) - len(set(values))
    colour = "green" if missing == doubled == 0 else "red"
    console.print(f"[{colour}]acknowledged {acknowledged:,}, lost {missing:,}, doubled {doubled:,}[/]")
    if missing or doubled:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
