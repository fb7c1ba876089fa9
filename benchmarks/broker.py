"""The embedded broker and Apache Kafka on this machine, side by side: `python -m benchmarks.broker [--quick]`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Final

from benchmarks import loads
from benchmarks.comparison import Load, Row, Target, compare
from benchmarks.peers import (
    KAFKA,
    KAFKA_BESIDE_FLUSHES,
    KAFKA_FLUSHING,
    OURS_FSYNC,
    OURS_FSYNC_SOURCES,
    OURS_OS,
    BesideFlushes,
    Kafka,
    Oncestream,
    Peer,
    running,
)
from benchmarks.report import report
from oncestream.testing.kafka_jars import KAFKA_VERSION
from tools.wheel import CannotCompile, compiled

PER_SECOND: Final = "records/s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, for a look")
    scale = 0.1 if parser.parse_args().quick else 1.0
    plan = [*start_and_memory(), *throughput(scale), *durable(scale), *latency(scale), *memory_under_load()]
    with running(*all_peers()) as peers:
        failures = compare(plan, peers)
    rows = [row for load in plan for rows in load.figures for row in rows]
    report(f"Embedded broker against Apache Kafka {KAFKA_VERSION}", "broker", rows, failures, scale)
    return 1 if failures else 0


def all_peers() -> list[Peer]:
    """Ours as its wheels are, that is, compiled where it matters; and once as it runs from a clone."""
    try:
        code = compiled()
    except CannotCompile as error:
        print(f"the embedded broker is measured from its sources: {error}")
        code = None
    kafka = Kafka(KAFKA)
    return [
        kafka,
        BesideFlushes(KAFKA_BESIDE_FLUSHES, kafka),
        Kafka(KAFKA_FLUSHING, log_flush_interval_messages="1"),
        Oncestream(OURS_OS, code=code, durability="os"),
        Oncestream(OURS_FSYNC, code=code, durability="fsync"),
        Oncestream(OURS_FSYNC_SOURCES, durability="fsync"),
    ]


def start_and_memory() -> list[Load]:
    return [
        Load(
            "start-up",
            loads.start_up_s,
            [[row("start-up to first Metadata answer", "s", Target(0.1, at_most=True, below=0.5))]],
        ),
        Load(
            "memory, idle",
            loads.rss_mb,
            [[row("RSS idle", "MB", Target(below=60))]],
            repetitions=1,
            warm_ups=0,
        ),
    ]


def memory_under_load() -> list[Load]:
    """Comes last: the largest RSS over all that went before."""
    figures = [[row("RSS under load", "MB", Target(0.1, at_most=True))]]
    return [Load("memory, peak", loads.rss_peak_mb, figures, repetitions=1, warm_ups=0)]


def throughput(scale: float) -> list[Load]:
    small, large = int(1_000_000 * scale), int(300_000 * scale)
    return [
        Load(
            "Java clients, 1 KB",
            partial(loads.java, records=large, size=1000),
            [
                [row("Java producer 1 KB", PER_SECOND, Target(1.0))],
                [row("Java consumer 1 KB", PER_SECOND, Target(1.0))],
            ],
        ),
        Load(
            "Java clients, 100 B",
            partial(loads.java, records=small, size=100),
            [
                [row("Java producer 100 B", PER_SECOND, Target(0.9))],
                [row("Java consumer 100 B", PER_SECOND, Target(1.0))],
            ],
        ),
        Load(
            "librdkafka, 1 KB",
            partial(loads.librdkafka, records=large, size=1000),
            [
                [row("librdkafka producer 1 KB", PER_SECOND, Target(1.0))],
                [row("librdkafka consumer 1 KB", PER_SECOND)],
            ],
        ),
        Load(
            "librdkafka, 100 B",
            partial(loads.librdkafka, records=small, size=100),
            [
                [row("librdkafka producer 100 B", PER_SECOND, Target(0.8))],
                [row("librdkafka consumer 100 B", PER_SECOND)],
            ],
        ),
        Load(
            "tiny requests",
            partial(loads.tiny_requests, requests=int(100_000 * scale)),
            [[row("tiny requests, 8 connections x 8 in flight", "requests/s", Target(2.0))]],
        ),
    ]


def durable(scale: float) -> list[Load]:
    name = "durable Java producer 1 KB"
    rows = [
        Row(f"{name}, Kafka not flushing", PER_SECOND, OURS_FSYNC, KAFKA, Target(0.9)),
        Row(f"{name}, Kafka not flushing, ours not compiled", PER_SECOND, OURS_FSYNC_SOURCES, KAFKA),
        Row("Kafka itself, beside a process that flushes as much", PER_SECOND, KAFKA_BESIDE_FLUSHES, KAFKA),
        Row(f"{name}, Kafka flush.messages=1", PER_SECOND, OURS_FSYNC, KAFKA_FLUSHING, Target(3.0)),
    ]
    run = partial(loads.java_producer, records=int(300_000 * scale), size=1000)
    return [Load(name, run, [rows], repetitions=7)]  # the machine's noise is as large as what is looked for


def latency(scale: float) -> list[Load]:
    name = "one acks=all record"
    p50 = [
        row(f"{name} p50", "ms", Target(0.7, at_most=True)),
        Row(f"{name} p50, durable", "ms", OURS_FSYNC, KAFKA),
        Row(f"{name} p50, durable, Kafka flush.messages=1", "ms", OURS_FSYNC, KAFKA_FLUSHING),
    ]
    p99 = [
        row(f"{name} p99", "ms"),
        Row(f"{name} p99, durable", "ms", OURS_FSYNC, KAFKA),
        Row(f"{name} p99, durable, Kafka flush.messages=1", "ms", OURS_FSYNC, KAFKA_FLUSHING),
    ]
    return [Load(name, partial(loads.latency_ms, requests=int(5000 * scale)), [p50, p99])]


def row(name: str, unit: str, target: Target | None = None) -> Row:
    """A row of the embedded broker that does not wait for the disk, as Kafka by default does not."""
    return Row(name, unit, OURS_OS, KAFKA, target)


if __name__ == "__main__":
    sys.exit(main())
