"""The program of a driver that runs one job after another: jobs come in as lines of JSON, what happens goes out so."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import oncestream as once
from oncestream.errors import OncestreamError
from oncestream.spark.write import start_query

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

POLL_S: Final = 0.02
HELD_TASK: Final = 0
ROWS_BEFORE_HOLD: Final = 25_000  # some are written by then, in fewer batches than a broker remembers
SHUFFLED_TASKS: Final = 16  # many blocks: when the task that reads them stops, some are not fetched yet
SHARE_MIN: Final = 6  # tasks of the other executor
JVM_SOURCE: Final = "kafka"


class Kind(StrEnum):
    UPPER = "upper"
    HOLD = "hold"  # rows stay in their partitions; the first task stops half-way
    SHUFFLE = "shuffle"  # all rows go to one task of a second stage, which stops half-way
    FROM_JVM = "from jvm"  # Spark's own connector reads
    TO_JVM = "to jvm"  # Spark's own connector writes


@dataclass(frozen=True, slots=True)
class Work:
    """One job. While the file `hold` is there, the job's task waits, and says so in the file `held`."""

    kind: str
    bootstrap: str
    source: str
    sink: str
    checkpoint: str
    hold: str = ""
    name: str = ""
    read: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(master: str, settings: dict[str, str]) -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    spark = once.session("tests of clusters", master=master, settings=settings)
    tell(event="up")
    for line in sys.stdin:
        work = Work(**json.loads(line))
        try:
            run(spark, work)
        except Exception as error:  # the test is told of whatever it was
            text = str(error) if isinstance(error, OncestreamError) else repr(error)
            tell(event="error", kind=type(error).__name__, text=text)
        else:
            tell(event="finished")
    spark.stop()


def run(spark: SparkSession, work: Work) -> None:
    if work.kind == Kind.TO_JVM:
        rows = source("oncestream")(spark, work).select("key", "value")
        writer = rows.writeStream.format(JVM_SOURCE).option("kafka.bootstrap.servers", work.bootstrap)
        writer = writer.option("topic", work.sink).option("checkpointLocation", work.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    read = source(JVM_SOURCE if work.kind == Kind.FROM_JVM else "oncestream")
    pipeline = once.pipeline(
        source=lambda spark: read(spark, work),
        sink=work.sink,
        name=work.name,
        bootstrap_servers=work.bootstrap,
        checkpoint=work.checkpoint,
        trigger="once",
        partition_by=Hold(work.hold) if work.hold else "auto",
        on_outcome=lambda outcome: tell(event="outcome", **outcome._asdict()),
    )(lambda rows: transformed(rows, work))
    replace(pipeline, starter=partial(start_query, driver_rows_max=0)).run(spark)  # only tasks write


def source(format: str) -> Callable[[SparkSession, Work], DataFrame]:  # noqa: A002
    def read(spark: SparkSession, work: Work) -> DataFrame:
        reader = spark.readStream.format(format).option("kafka.bootstrap.servers", work.bootstrap)
        given = {"subscribe": work.source, "startingOffsets": "earliest"}
        return reader.options(**(given | work.read)).load()

    return read


def transformed(rows: DataFrame, work: Work) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    upper = rows.select(F.upper(F.col("value").cast("string")).alias("value"))
    return (
        upper.mapInArrow(Share(work.hold), upper.schema).repartition(1)
        if work.kind == Kind.SHUFFLE
        else upper
    )


class Share:
    """Sees to it that each of two executors gets some of the first stage's tasks, even one that came up late."""

    def __init__(self, file: str) -> None:
        self._folder = Path(file).with_suffix(".share")

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{executor()}-{context.partitionId()}").touch()
        while self._is_greedy():
            time.sleep(POLL_S)
        yield from batches

    def _is_greedy(self) -> bool:
        begun = [file.name.split("-")[0] for file in self._folder.iterdir()]
        mine = begun.count(executor())
        return mine >= SHUFFLED_TASKS - SHARE_MIN and len(begun) - mine < SHARE_MIN


class Hold:
    """Chooses partitions, and so runs in the worker that writes: as long as a file is there, one of them waits."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def __call__(self, row: dict[str, Any], partitions: int) -> int:
        self._count += 1
        if self._count == ROWS_BEFORE_HOLD:
            self._wait()
        return int(row["value"].split()[0]) % partitions

    def _wait(self) -> None:
        from pyspark import TaskContext

        hold, context = Path(self._file), TaskContext.get()
        if context is None or context.partitionId() != HELD_TASK or not hold.exists():
            return
        told = hold.with_suffix(".telling")
        told.write_text(json.dumps({"worker": os.getpid(), "executor": executor()}))
        told.rename(hold.with_suffix(".held"))
        while hold.exists():
            time.sleep(POLL_S)


def executor() -> str:
    """The id of the executor this runs in: its folder in a local cluster is named after it."""
    return Path.cwd().name


def tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
