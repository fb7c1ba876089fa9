"""What is measured of a pipeline: throughput, time to its first commit, latency, memory, CPU time."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.pipeline_peers.process import Output, Running, running
from benchmarks.pipeline_peers.system import Job, System

VALUE_BYTES: Final = 100
RATE_PER_S: Final = 1000
TICK_S: Final = 0.005
POLL_S: Final = 0.02
QUIET_S: Final = 4.0
FIRST_OUTPUT_TIMEOUT_S: Final = 120
RUN_TIMEOUT_S: Final = 400
TOPIC_TIMEOUT_S: Final = 30
DIGITS: Final = 20
COUNTER: Final = itertools.count()
READ_COMMITTED: Final = {
    "isolation.level": "read_committed",
    "group.id": "bench",
    "enable.auto.commit": False,
}


class Window(NamedTuple):
    """A span of a latency run, in seconds after its start."""

    from_s: float
    to_s: float


def start_up(system: System) -> tuple[float]:
    """Seconds from the start of the process to the first output that a read_committed consumer can see."""
    with _job(system, records=1000) as job, running(system, job) as run:
        output = Output(job.bootstrap, job.sink, system.partitions)
        _wait_for_output(output, run)
        return (time.perf_counter() - run.began,)


def throughput(system: System, warm_up: int, records: int) -> tuple[float, float, float]:
    """Records per second after the first `warm_up` ones; peak memory in MB; CPU seconds of all of it."""
    with _job(system, warm_up + records) as job, running(system, job, sampled=True) as run:
        growth = _growth(Output(job.bootstrap, job.sink, system.partitions), run)
        cpu_s, memory_mb = run.cpu_s, run.memory_mb_max
        written = _count(job, system.partitions)
    assert written == warm_up + records, f"{system.name} wrote {written} of {warm_up + records} records"
    # A batch of so many rows may come out a few rows short, and a last one bring those.
    first = next(point for point in growth if point[1] >= warm_up * 0.99)
    last = next(point for point in growth if point[1] >= (warm_up + records) * 0.99)
    assert last[0] > first[0], f"{system.name} wrote all in one go: give it smaller batches"
    return (last[1] - first[1]) / (last[0] - first[0]), memory_mb, cpu_s


def latency(system: System, windows: Sequence[Window]) -> list[float]:
    """p50 and p99 of each window, in ms from produce to a read_committed consumer, at 1,000 records a second."""
    with _job(system, records=0) as job, running(system, job) as run:
        ended = threading.Event()
        producer = threading.Thread(
            target=_produce_steadily, args=(job, system.partitions, ended), daemon=True
        )
        producer.start()
        try:
            seen = _latencies_ms(job, system.partitions, run, windows[-1].to_s)
        finally:
            ended.set()
            producer.join()
    figures = []
    for window in windows:
        inside = [ms for at_s, ms in seen if window.from_s <= at_s < window.to_s]
        assert len(inside) > RATE_PER_S * (window.to_s - window.from_s) * 0.5, f"{system.name} fell behind"
        percentiles = statistics.quantiles(inside, n=100)
        figures += [percentiles[49], percentiles[98]]
    return figures


@contextmanager
def _job(system: System, records: int) -> Iterator[Job]:
    name = f"bench-{os.getpid()}-{next(COUNTER)}"
    source = _source(system.bootstrap, system.partitions, records)
    if records == 0:
        source = f"{name}-source"
        _create(system.bootstrap, source, system.partitions)
    job = Job(system.bootstrap, source, f"{name}-sink", name)
    _create(system.bootstrap, job.sink, system.partitions)
    try:
        yield job
    finally:
        admin = AdminClient({"bootstrap.servers": system.bootstrap})
        admin.delete_topics([job.sink])[job.sink].result(TOPIC_TIMEOUT_S)


@cache
def _source(bootstrap: str, partitions: int, records: int) -> str:
    """A topic of that many records; made once, read by every system."""
    topic = f"source-{os.getpid()}-{partitions}-{records}"
    if records == 0:
        return topic
    _create(bootstrap, topic, partitions)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000}
    )
    for number in range(records):
        producer.produce(topic, f"{number:0{DIGITS}d}".ljust(VALUE_BYTES, "x"), partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(TOPIC_TIMEOUT_S) == 0
    return topic


def _create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TOPIC_TIMEOUT_S)
    deadline = time.monotonic() + TOPIC_TIMEOUT_S
    while topic not in admin.list_topics(timeout=TOPIC_TIMEOUT_S).topics:
        assert time.monotonic() < deadline, f"topic {topic} never appeared"
        time.sleep(POLL_S)


def _wait_for_output(output: Output, run: Running) -> None:
    deadline = time.monotonic() + FIRST_OUTPUT_TIMEOUT_S
    while output.end() == 0:
        run.check()
        assert time.monotonic() < deadline, f"no output within {FIRST_OUTPUT_TIMEOUT_S} s"
        time.sleep(POLL_S)


def _growth(output: Output, run: Running) -> list[tuple[float, int]]:
    """(time, end of the output) at each change, until nothing comes any more."""
    _wait_for_output(output, run)
    points = [(time.perf_counter(), output.end())]
    deadline = time.perf_counter() + RUN_TIMEOUT_S
    while time.perf_counter() - points[-1][0] < QUIET_S:
        run.check()
        assert time.perf_counter() < deadline, f"still writing after {RUN_TIMEOUT_S} s"
        end = output.end()
        if end != points[-1][1]:
            points.append((time.perf_counter(), end))
        time.sleep(POLL_S)
    return points


def _count(job: Job, partitions: int) -> int:
    """How many different records the sink has; a record that is there twice is an error."""
    seen: set[bytes] = set()
    consumer = _consumer(job, partitions, partition_ends=True)
    ended = 0
    while ended < partitions:
        for message in consumer.consume(10_000, 1.0):
            if message.error():
                ended += 1
                continue
            number = _head(message)
            assert number not in seen, f"record {number!r} is there twice"
            seen.add(number)
    consumer.close()
    return len(seen)


def _consumer(job: Job, partitions: int, *, partition_ends: bool = False) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": job.bootstrap, "enable.partition.eof": partition_ends} | READ_COMMITTED
    )
    consumer.assign([TopicPartition(job.sink, number, 0) for number in range(partitions)])
    return consumer


def _head(message: Message) -> bytes:
    value = message.value()
    assert value is not None
    return value[:DIGITS]


def _produce_steadily(job: Job, partitions: int, ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": job.bootstrap, "linger.ms": 0})
    per_tick = round(RATE_PER_S * TICK_S)
    due = time.perf_counter()
    number = 0
    while not ended.is_set():
        for _ in range(per_tick):
            value = f"{time.time_ns():0{DIGITS}d}".ljust(VALUE_BYTES, "x")
            producer.produce(job.source, value, partition=number % partitions)
            number += 1
        producer.poll(0)
        due += TICK_S
        time.sleep(max(0.0, due - time.perf_counter()))
    producer.flush(TOPIC_TIMEOUT_S)


def _latencies_ms(job: Job, partitions: int, run: Running, until_s: float) -> list[tuple[float, float]]:
    """(seconds since the start, latency) of every record."""
    consumer = _consumer(job, partitions)
    seen = []
    while (at_s := time.perf_counter() - run.began) < until_s:
        run.check()
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            seen.append((at_s, (time.time_ns() - int(_head(message))) / 1e6))
    consumer.close()
    return seen
