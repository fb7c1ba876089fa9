"""One job on Oncestream and on other stream processors, side by side: `python -m benchmarks.pipelines [--quick]`.

The job: read 100-byte records of four partitions, upper-case them, write them to four partitions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from benchmarks import pipeline_loads as loads
from benchmarks.comparison import Load, Row, Target, compare
from benchmarks.peers import Kafka, Oncestream, running
from benchmarks.pipeline_loads import Window
from benchmarks.pipeline_peers.environments import SPARK_VERSION, connector_jars, java_program, python_of
from benchmarks.pipeline_peers.system import PROGRAMS, Job, System, own_program
from benchmarks.report import report
from oncestream.testing.kafka_jars import KAFKA_STREAMS, KAFKA_VERSION, LOGGING, JarSet

OURS: Final = "Oncestream"
OURS_EMBEDDED: Final = "Oncestream on its own broker"
SPARK_SQL: Final = "Spark's own connector, SQL (at least once)"
SPARK_ARROW: Final = "Spark's own connector, mapInArrow (at least once)"
STREAMS: Final = "Kafka Streams exactly_once_v2, 2 threads"
FLINK: Final = "Flink exactly once, checkpoints of 1 s"
FLINK_FAST: Final = "Flink exactly once, checkpoints of 100 ms"
QUIX: Final = "Quix Streams exactly once"
LOOP: Final = "confluent-kafka, a transactional loop by hand"
OTHERS: Final = (SPARK_SQL, SPARK_ARROW, STREAMS, FLINK, FLINK_FAST, QUIX, LOOP)

FLINK_JARS: Final = JarSet(
    "flink-2.2.1",
    (
        "org.apache.flink:flink-streaming-java:2.2.1",
        "org.apache.flink:flink-clients:2.2.1",
        "org.apache.flink:flink-connector-base:2.2.1",
        "org.apache.flink:flink-connector-kafka:4.0.1-2.0",
        LOGGING,
    ),
)
JAVA_QUIET: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)
BATCH_ROWS: Final = 500_000
THROUGHPUT_TARGETS: Final = {SPARK_SQL: 2.0, STREAMS: 1.2, FLINK: 1.2, FLINK_FAST: 1.2}
WINDOWS: Final = {"30 s after the start": Window(30, 60), "warm": Window(90, 120)}
WINDOWS_QUICK: Final = {"20 s after the start": Window(20, 30), "warm": Window(40, 50)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the load and one repetition, for a look"
    )
    parser.add_argument("--only", help="only systems whose name contains this, beside ours")
    parser.add_argument("--no-growth", action="store_true", help="leave out how figures grow with the load")
    options = parser.parse_args()
    scale = 0.25 if options.quick else 1.0
    repetitions = 1 if options.quick else 3
    kafka, embedded = Kafka("Kafka"), Oncestream("embedded", durability="fsync")
    with running(kafka, embedded):
        systems = all_systems(kafka.bootstrap, embedded.bootstrap, options.only)
        failures = first_starts(systems)
        usable = {name: system for name, system in systems.items() if name not in failures}
        plan = comparisons(list(usable), scale, repetitions, WINDOWS_QUICK if options.quick else WINDOWS)
        failures |= compare(plan, usable)
        tell(plan, failures, scale)
        if not options.no_growth:
            more = growth(scale, repetitions)
            failures |= compare(more, growth_systems(kafka.bootstrap))
            tell([*plan, *more], failures, scale)
    return 1 if failures else 0


def tell(plan: Sequence[Load], failures: Mapping[str, str], scale: float) -> None:
    rows = [row for load in plan for rows in load.figures for row in rows]
    title = f"One job on several stream processors, Apache Kafka {KAFKA_VERSION}"
    report(title, "pipelines", rows, failures, scale, others="theirs")


def all_systems(kafka: str, embedded: str, only: str | None) -> dict[str, System]:
    spark = partial(python_of, f"spark-{SPARK_VERSION}", f"pyspark=={SPARK_VERSION}", "pandas<3", "pyarrow")
    quix = partial(python_of, "quix", "quixstreams>=3.20,<4")

    def connector(kind: str) -> Callable[[Job], Sequence[str]]:
        program = str(PROGRAMS / "spark_connector.py")
        return lambda job: [spark(), program, *job.arguments(), connector_jars(), kind]

    def flink(checkpoint_ms: int) -> Callable[[Job], Sequence[str]]:
        program = PROGRAMS / "FlinkUpper.java"
        return lambda job: java_program(
            program, FLINK_JARS, [*job.arguments(), str(checkpoint_ms)], JAVA_QUIET
        )

    commands: dict[str, Callable[[Job], Sequence[str]]] = {
        SPARK_SQL: connector("sql"),
        SPARK_ARROW: connector("arrow"),
        STREAMS: lambda job: java_program(
            PROGRAMS / "KafkaStreamsUpper.java", KAFKA_STREAMS, job.arguments(), JAVA_QUIET
        ),
        FLINK: flink(1000),
        FLINK_FAST: flink(100),
        QUIX: lambda job: [quix(), str(PROGRAMS / "quix_pipeline.py"), *job.arguments()],
        LOOP: own_program("confluent_loop.py"),
    }
    wanted = {name: command for name, command in commands.items() if only is None or only in name}
    ours = own_pipeline()
    systems = [System(OURS, kafka, ours), System(OURS_EMBEDDED, embedded, ours)]
    systems += [System(name, kafka, command) for name, command in wanted.items()]
    return {system.name: system for system in systems}


def own_pipeline(rows_per_batch: int = BATCH_ROWS, *master: str) -> Callable[[Job], Sequence[str]]:
    return own_program("oncestream_pipeline.py", str(rows_per_batch), *master)


def first_starts(systems: Mapping[str, System]) -> dict[str, str]:
    """Fetches what the systems need, and says which of them cannot run here."""
    failures = {}
    for name, system in systems.items():
        try:
            loads.start_up(system)
        except Exception as error:
            failures[name] = str(error) or repr(error)
    return failures


def comparisons(
    names: Sequence[str], scale: float, repetitions: int, windows: Mapping[str, Window]
) -> list[Load]:
    others = [name for name in names if name not in {OURS, OURS_EMBEDDED}]
    records = int(1_000_000 * scale)
    rows = partial(against, others, embedded=OURS_EMBEDDED in names)
    spans = [
        rows(
            f"latency {percentile}, {span}", "ms", {SPARK_SQL: Target(0.5, at_most=True)}, Target(below=limit)
        )
        for span in windows
        for percentile, limit in (("p50", 150), ("p99", 350))
    ]
    return [
        Load(
            "start-up",
            loads.start_up,
            [rows("start-up to first committed output", "s", {}, Target(below=8))],
            repetitions,
            warm_ups=0,
        ),
        Load(
            "throughput",
            partial(loads.throughput, warm_up=BATCH_ROWS, records=max(records, BATCH_ROWS)),
            [
                rows("throughput", "records/s", {name: Target(x) for name, x in THROUGHPUT_TARGETS.items()}),
                rows("peak memory", "MB", {}, Target(below=1200)),
                rows("CPU time", "s", {}),
            ],
            repetitions,
            warm_ups=0,
        ),
        Load("latency", partial(loads.latency, windows=list(windows.values())), spans, 1, warm_ups=0),
    ]


def against(
    others: Sequence[str],
    name: str,
    unit: str,
    targets: Mapping[str, Target],
    own: Target | None = None,
    *,
    embedded: bool = True,
) -> list[Row]:
    """Our figure alone, then against that of every other system."""
    rows = [Row(name, unit, OURS, None, own)]
    if embedded:
        rows.append(Row(f"{name}, on its own broker", unit, OURS_EMBEDDED, None, own))
    return rows + [Row(f"{name} against {other}", unit, OURS, other, targets.get(other)) for other in others]


def growth_systems(kafka: str) -> dict[str, System]:
    systems = [System(f"rows per batch: {rows:,}", kafka, own_pipeline(rows)) for rows in ROWS_PER_BATCH]
    systems += [System(f"partitions: {count}", kafka, own_pipeline(), count) for count in PARTITIONS]
    systems += [
        System(
            f"executors: {count}",
            kafka,
            own_pipeline(BATCH_ROWS, f"local-cluster[{count},1,1024]"),
        )
        for count in EXECUTORS
    ]
    return {system.name: system for system in systems}


ROWS_PER_BATCH: Final = (10_000, 50_000, 250_000, 500_000)
PARTITIONS: Final = (4, 16, 64, 256)
EXECUTORS: Final = (1, 2)


def growth(scale: float, repetitions: int) -> list[Load]:
    """Throughput of ours by size of the load, each against the smallest."""
    records = max(int(1_000_000 * scale), *ROWS_PER_BATCH)
    run = partial(loads.throughput, warm_up=max(ROWS_PER_BATCH), records=records)

    def rates(system: System) -> tuple[float]:
        return run(system)[:1]

    series = [
        [f"rows per batch: {rows:,}" for rows in ROWS_PER_BATCH],
        [f"partitions: {count}" for count in PARTITIONS],
        [f"executors: {count}" for count in EXECUTORS],
    ]
    return [
        Load(
            f"growth, {names[0].partition(':')[0]}",
            rates,
            [
                [
                    Row(f"throughput, {name} against {names[0]}", "records/s", name, names[0])
                    for name in names[1:]
                ]
            ],
            min(repetitions, 2),
            warm_ups=0,
        )
        for names in series
    ]


if __name__ == "__main__":
    sys.exit(main())
