"""The loads: each takes a running peer and gives its figures."""

from __future__ import annotations

import itertools
import re
import selectors
import socket
import statistics
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.peers import BesideFlushes, Peer, topic_on
from oncestream.records.records import Record, build_batch
from oncestream.testing.kafka_jars import java_command
from oncestream.wire.codec import encode
from oncestream.wire.header import encode_request_header
from oncestream.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS: Final = 4
RUN_TIMEOUT_S: Final = 300
SETTLE_TIMEOUT_S: Final = 10
PRODUCE_VERSION: Final = 8
CONNECTIONS: Final = 8
IN_FLIGHT: Final = 8
# With its defaults librdkafka's consumer pauses for a second whenever 100,000 records of a partition wait in
# its queue, on any broker alike; without, the broker is what is measured.
NEVER_PAUSES: Final = {"queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000}
COUNTER: Final = itertools.count()
QUIET: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)


def start_up_s(peer: Peer) -> tuple[float]:
    """Seconds from exec to the first Metadata answer; the peer is started again on the data it has."""
    peer.stop()
    began = time.perf_counter()
    peer.start()
    return (time.perf_counter() - began,)


def rss_mb(peer: Peer) -> tuple[float]:
    return (_memory_mb(peer, "VmRSS"),)


def rss_peak_mb(peer: Peer) -> tuple[float]:
    """The largest RSS since the peer started."""
    return (_memory_mb(peer, "VmHWM"),)


def java(peer: Peer, records: int, size: int) -> tuple[float, float]:
    """Records per second of Kafka's ProducerPerformance (idempotent, acks=all) and ConsumerPerformance."""
    with topic_on(peer, new_name(), PARTITIONS) as topic:
        produced = produce_by_java(peer, topic, records, size)
        return produced, consume_by_java(peer, topic, records)


def java_producer(peer: Peer, records: int, size: int) -> tuple[float]:
    with topic_on(peer, new_name(), PARTITIONS) as topic, ExitStack() as stack:
        if isinstance(peer, BesideFlushes):
            stack.enter_context(peer.flushing(topic))
        return (produce_by_java(peer, topic, records, size),)


def librdkafka(peer: Peer, records: int, size: int) -> tuple[float, float]:
    """Records per second that confluent-kafka produces (acks=all) and then consumes."""
    with topic_on(peer, new_name(), PARTITIONS) as topic:
        produced = produce_by_librdkafka(peer, topic, records, size)
        return produced, consume_by_librdkafka(peer, topic, records)


def latency_ms(peer: Peer, requests: int) -> tuple[float, float]:
    """p50 and p99 of one acks=all record of 100 bytes, the next sent when the last is answered."""
    with topic_on(peer, new_name(), 1) as topic, connect(peer) as connection:
        frame = _produce_frame(topic, 100)
        answer_size = _settle(connection, frame)
        took: list[float] = []
        for _ in range(requests):
            began = time.perf_counter()
            connection.sendall(frame)
            connection.recv(answer_size, socket.MSG_WAITALL)
            took.append((time.perf_counter() - began) * 1000)
    steady = took[requests // 10 :]
    return statistics.median(steady), statistics.quantiles(steady, n=100)[98]


def tiny_requests(peer: Peer, requests: int) -> tuple[float]:
    """Produce requests (acks=all) of one 10-byte record per second, 8 connections with 8 in flight each."""
    with topic_on(peer, new_name(), CONNECTIONS) as topic, selectors.DefaultSelector() as selector:
        connections = [connect(peer) for _ in range(CONNECTIONS)]
        frames = {c: _produce_frame(topic, 10, partition) for partition, c in enumerate(connections)}
        pending = dict.fromkeys(connections, 0)
        for connection in connections:
            answer_size = _settle(connection, frames[connection])
            selector.register(connection, selectors.EVENT_READ)
        began, answered = time.perf_counter(), 0
        for connection in connections:
            connection.sendall(frames[connection] * IN_FLIGHT)
        while answered < requests:
            for key, _ in selector.select(RUN_TIMEOUT_S):
                connection = key.fileobj  # type: ignore[assignment]
                got = len(connection.recv(1 << 16))
                assert got, f"{peer.name} closed the connection"
                done, pending[connection] = divmod(pending[connection] + got, answer_size)
                if done:
                    connection.sendall(frames[connection] * done)
                    answered += done
        took = time.perf_counter() - began
        for connection in connections:
            connection.close()
    return (answered / took,)


def produce_by_java(peer: Peer, topic: str, records: int, size: int, *options: str) -> float:
    """Records per second of Kafka's ProducerPerformance."""
    said = run_java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", peer.bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records), "--record-size", str(size), *options),
    )
    found = re.findall(rf"{records} records sent, ([\d.]+) records/sec", said)
    assert found, said
    return float(found[-1])


def consume_by_java(peer: Peer, topic: str, records: int, *options: str) -> float:
    """Records per second of Kafka's ConsumerPerformance; joining its group is not counted."""
    said = run_java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", peer.bootstrap, "--topic", topic),
        *("--num-records", str(records), "--timeout", "60000", *options),
    )
    columns, values = (line.split(", ") for line in said.strip().splitlines()[:2])
    figures = dict(zip(columns, values, strict=True))
    assert int(figures["data.consumed.in.nMsg"]) >= records, said
    return float(figures["fetch.nMsg.sec"])


def run_java(main_class: str, *arguments: str) -> str:
    command = java_command(main_class, *arguments, options=QUIET)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def produce_by_librdkafka(peer: Peer, topic: str, records: int, size: int) -> float:
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "on_delivery": lambda error, _message: failures.append(error) if error else None,
        }
    )
    value = bytes(size)
    began = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(RUN_TIMEOUT_S) == 0, f"{peer.name} did not answer all"
    took = time.perf_counter() - began
    assert not failures, str(failures[0])
    return records / took


def consume_by_librdkafka(
    peer: Peer, topic: str, records: int, isolation_level: str = "read_committed"
) -> float:
    """Records per second; the clock starts before the connection is made."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "unused",
            "isolation.level": isolation_level,
            **NEVER_PAUSES,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    began, seen = time.perf_counter(), 0
    while seen < records:
        messages = consumer.consume(min(1000, records - seen), timeout=10)
        assert messages, f"{peer.name} gave {seen} of {records} records"
        seen += sum(message.error() is None for message in messages)
    took = time.perf_counter() - began
    consumer.close()
    return records / took


def _produce_frame(topic: str, size: int, partition: int = 0) -> bytes:
    """A whole Produce request of one record."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, bytes(size), ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    body = encode_request_header(0, PRODUCE_VERSION, 1, "bench") + encode(request, PRODUCE_VERSION)
    return len(body).to_bytes(4, "big") + body


def _settle(connection: socket.socket, frame: bytes) -> int:
    """Send until it succeeds (a new partition of Kafka's has no leader at first); size of a whole answer."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        connection.sendall(frame)
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        body = connection.recv(size, socket.MSG_WAITALL)
        name_size = int.from_bytes(body[8:10], "big")
        error_at = 10 + name_size + 8
        error = int.from_bytes(body[error_at : error_at + 2], "big", signed=True)
        if error == 0:
            return size + 4
        assert time.monotonic() < deadline, f"Produce is refused with error code {error}"


def connect(peer: Peer) -> socket.socket:
    host, port = peer.bootstrap.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), RUN_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _memory_mb(peer: Peer, field: str) -> float:
    status = Path(f"/proc/{peer.pid}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def new_name() -> str:
    return f"bench-{next(COUNTER)}"
