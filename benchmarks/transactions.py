"""Transactions, embedded broker and Apache Kafka side by side: `python -m benchmarks.transactions [--quick]`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Final

from benchmarks import transaction_loads as loads
from benchmarks.comparison import Load, Row, Target, compare
from benchmarks.peers import KAFKA, OURS_FSYNC, OURS_OS, Kafka, Oncestream, running
from benchmarks.recovery import full_coordinators, recovery_s
from benchmarks.report import report
from oncestream.testing.kafka_jars import KAFKA_VERSION

OURS_FULL: Final = "Oncestream, 100,000 transactional ids and 1,000,000 offsets"
PER_SECOND: Final = "records/s"
TINY: Final = {1: 2000, 8: 1000, 64: 300}  # transactions by partitions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, for a look")
    scale = 0.1 if parser.parse_args().quick else 1.0
    plan = [*throughput(scale), *tiny(scale), *isolation(scale)]
    after = recovery()
    peers = Kafka(KAFKA), Oncestream(OURS_OS, durability="os"), Oncestream(OURS_FSYNC, durability="fsync")
    with running(*peers) as by_name:
        failures = compare(plan, by_name)
    with running(full_coordinators(OURS_FULL)) as by_name:
        failures |= compare(after, by_name)
    rows = [row for load in [*plan, *after] for rows in load.figures for row in rows]
    report(f"Transactions against Apache Kafka {KAFKA_VERSION}", "transactions", rows, failures, scale)
    return 1 if failures else 0


def throughput(scale: float) -> list[Load]:
    return [
        Load(
            "transactional Java producer",
            partial(loads.java_transactions, records=int(300_000 * scale), size=1000),
            [both("Java producer 1 KB, transactions of 100 ms", PER_SECOND, Target(1.0), Target(1.0))],
        ),
        Load(
            "consume, transform, produce",
            partial(loads.consume_transform_produce, records=int(2_000_000 * scale), size=100),
            [both("consume-transform-produce 100 B, transactions of 100 ms", PER_SECOND, Target(1.0))],
        ),
    ]


def tiny(scale: float) -> list[Load]:
    return [
        Load(
            f"tiny transactions, partitions: {partitions}",
            partial(loads.tiny_transactions, transactions=int(count * scale), partitions=partitions),
            [
                both(
                    f"tiny transactions, partitions: {partitions}",
                    "transactions/s",
                    *((Target(2.0), Target(1.0)) if partitions == 1 else ()),
                )
            ],
        )
        for partitions, count in TINY.items()
    ]


def isolation(scale: float) -> list[Load]:
    name = "read_committed"
    rows = [
        Row(f"librdkafka consumer 1 KB, {name}", PER_SECOND, OURS_OS, KAFKA),
        Row("librdkafka consumer 1 KB, read_uncommitted", PER_SECOND, OURS_OS, KAFKA),
        Row(f"{name} against read_uncommitted", "quotient", OURS_OS, KAFKA, Target(at_least=0.95)),
    ]
    run = partial(loads.isolation, records=int(500_000 * scale), size=1000)
    return [Load(name, run, [[row] for row in rows])]


def recovery() -> list[Load]:
    name = "start-up with 100k transactional ids, 1M offsets"
    rows = [Row(f"{name}{after}", "s", OURS_FULL, None, Target(below=3)) for after in ("", ", after SIGKILL")]
    return [Load(name, recovery_s, [[row] for row in rows], warm_ups=0)]


def both(name: str, unit: str, target: Target | None = None, durable: Target | None = None) -> list[Row]:
    """Rows of the embedded broker not waiting for the disk, and waiting, against Kafka, which does not."""
    return [
        Row(name, unit, OURS_OS, KAFKA, target),
        Row(f"{name}, durable", unit, OURS_FSYNC, KAFKA, durable),
    ]


if __name__ == "__main__":
    sys.exit(main())
