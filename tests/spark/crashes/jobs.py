"""The pipelines that are killed: what they read, what they do, and what must come out."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

import oncestream as once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from oncestream.spark.pipeline import Pipeline

WINDOW_S: Final = 10
TASKS: Final = 4
HELD_TASK: Final = 1
POLL_S: Final = 0.02
SMALL_BATCH: Final = 100
BIG_BATCH: Final = 12_000  # more than the planner reads by itself: tasks do


class Job(StrEnum):
    """Each is one pipeline; all read the same topics."""

    SMALL = "small"  # written by the driver
    BIG = "big"  # written by several tasks
    COUNTS = "counts"  # windows, in update mode
    JOIN = "join"  # of two streams
    UNIQUE = "unique"  # repeated values dropped


class World:
    """Names of topics and pipelines of one test."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def small(self) -> str:
        return f"{self.name}.in.small"

    @property
    def big(self) -> str:
        return f"{self.name}.in.big"

    @property
    def partners(self) -> str:
        return f"{self.name}.in.partners"

    def pipeline(self, job: Job) -> str:
        return f"{self.name}.{job}"

    def output(self, job: Job) -> str:
        return f"{self.name}.out.{job}"

    def inputs(self, job: Job) -> list[str]:
        match job:
            case Job.BIG | Job.COUNTS:
                return [self.big]
            case Job.JOIN:
                return [self.small, self.partners]
            case Job.SMALL | Job.UNIQUE:
                return [self.small]


def pipeline_of(world: World, job: Job, hold: Path | None = None) -> Pipeline:
    """`hold`: while this file is there, one task of the job BIG stops before its first row."""
    source: str | dict[str, str] = world.small
    transform: Callable[..., DataFrame] = upper
    batch = SMALL_BATCH
    match job:
        case Job.BIG:
            source, batch = world.big, BIG_BATCH
            transform = lambda rows: upper(rows).mapInArrow(Hold(hold), "value string")  # noqa: E731
        case Job.COUNTS:
            source, transform, batch = world.big, counts, BIG_BATCH
        case Job.JOIN:
            source, transform = {"left": world.small, "right": world.partners}, joined
    decorate = once.pipeline(
        name=world.pipeline(job),
        source=source,
        sink=world.output(job),
        read={"maxOffsetsPerTrigger": str(batch), "minPartitions": str(TASKS)},
        output_mode="update" if job is Job.COUNTS else "append",
        dedupe="value" if job is Job.UNIQUE else None,
    )
    return decorate(transform)


def upper(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.select(F.upper(F.col("value").cast("string")).alias("value"))


def counts(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    windows = rows.groupBy(F.window("timestamp", f"{WINDOW_S} seconds")).count()
    start = F.unix_timestamp(F.col("window.start")).alias("start")
    return windows.select(F.to_json(F.struct(start, "count")).alias("value"))


def joined(left: DataFrame, right: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    ours = left.select(F.col("value").cast("string").alias("id"))
    theirs = right.select(F.col("value").cast("string").alias("id"), F.lit("paired").alias("word"))
    return ours.join(theirs, "id").select(F.concat_ws(" ", "id", "word").alias("value"))


@dataclass(frozen=True, slots=True)
class Hold:
    """Passes rows on; one task waits as long as a file is there, and says so by another."""

    file: Path | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if self.file is not None and context is not None and context.partitionId() == HELD_TASK:
            while self.file.exists():
                self.file.with_suffix(".held").touch()
                time.sleep(POLL_S)
        yield from batches


def expected(job: Job, small: Iterable[str], partners: Iterable[str], big: Iterable[str]) -> Counter[str]:
    """What a job other than COUNTS must have written, each row as often as here."""
    match job:
        case Job.SMALL:
            return Counter(value.upper() for value in small)
        case Job.BIG:
            return Counter(value.upper() for value in big)
        case Job.JOIN:
            there = Counter(partners)
            return Counter({f"{value} paired": n * there[value] for value, n in Counter(small).items()})
        case Job.UNIQUE:
            return Counter({value.upper() for value in small})
        case Job.COUNTS:
            raise ValueError("counts depend on the batches: see check_counts")


def check_counts(updates: Iterable[str], times_ms: Iterable[int]) -> None:
    """Every update of a window counts more than the one before, and the last counts all."""
    truth = Counter(time_ms // 1000 // WINDOW_S * WINDOW_S for time_ms in times_ms)
    told: defaultdict[int, list[int]] = defaultdict(list)
    for update in updates:
        content = json.loads(update)
        told[content["start"]].append(content["count"])
    assert {start: max(found) for start, found in told.items()} == dict(truth)
    assert all(len(set(found)) == len(found) for found in told.values()), f"an update twice: {dict(told)}"
