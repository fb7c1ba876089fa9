"""Writes the rows of a DataFrame so that every output partition has one writer: the driver, or one task each."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from oncestream.client.cluster import Cluster
from oncestream.client.transactions import Producer
from oncestream.spark.outlet import REPORT_DDL, Outlet, Report, report_from_arrow
from oncestream.spark.shapes import TopicShapes
from oncestream.spark.sink import Delivery, PartitionBy, Sink
from oncestream.spark.tasks import ROUTED, ROUTED_COLUMNS, TASK_COLUMN, RouteTask, WriteTask
from oncestream.wire.error_codes import ErrorCode

DRIVER_ROWS_MAX: Final = 20_000
WRITERS_MAX: Final = 10_000
RESULT_TOO_LARGE: Final = "spark.driver.maxResultSize"
LOG: Final = logging.getLogger("oncestream.pipeline")


class TwoWritersError(Exception):
    """Two tasks wrote to one partition: the batch must be aborted and shuffled."""


@dataclass(slots=True)
class Spread:
    """Chooses, batch by batch, who writes.

    Rows are not shuffled as long as the tasks, as they come, write to different partitions: true of a map
    that keeps partitions, and of rows that may go anywhere. Every batch is checked for it before it commits;
    the first that fails is aborted, and from then on rows are shuffled.
    """

    cluster: Cluster
    sink: Sink
    shapes: TopicShapes
    dead_letters_max: int
    delivery: Delivery
    is_micro_batch: bool = True
    driver_rows_max: int = DRIVER_ROWS_MAX
    shuffles: bool = False
    rows_out_per_in: float = 1.0
    path: str = ""

    def write(self, df: DataFrame, producer: Producer | None, rows_in: int | None) -> Report:
        """Writes every row and waits for the acknowledgements. `rows_in`: how many rows the batch reads, if known."""
        few = rows_in is not None and rows_in * self.rows_out_per_in <= self.driver_rows_max
        collected = self._collected(df) if few else None
        report = self._in_tasks(df, producer) if collected is None else self._on_driver(collected, producer)
        if rows_in:
            self.rows_out_per_in = max(1.0, (report.rows + len(report.dead)) / rows_in)
        return report

    def _collected(self, df: DataFrame) -> list[pa.RecordBatch] | None:
        """The rows of a small batch; None where it turns out to be too large for the driver."""
        try:
            # What toArrow() calls after it has asked the JVM for the schema again: some ms of every batch.
            batches: list[pa.RecordBatch] = df._collect_as_arrow()  # type: ignore[operator]
            return batches
        except Exception as error:
            if RESULT_TOO_LARGE not in str(error):
                raise
            LOG.info("pipeline=%s a small input gives much output: tasks write it", self.sink.pipeline)
            return None

    def _on_driver(self, collected: list[pa.RecordBatch], producer: Producer | None) -> Report:
        """A few rows are written from here, which spares the writing tasks."""
        self.path = "driver"
        outlet = Outlet(
            self.cluster, self.sink, self.shapes, producer, dead_letters_max=self.dead_letters_max
        )
        return outlet.write_all(collected)

    def _in_tasks(self, df: DataFrame, producer: Producer | None) -> Report:
        tasks = self._tasks_of(df)
        sink = self.sink
        if self.shuffles:
            self.path = "tasks, shuffled"
            df = self._shuffled(df, tasks)
            sink = replace(sink, topic=None, partition_by=PartitionBy.COLUMN)
        else:
            self.path = "tasks"
            df = df.coalesce(tasks)
        write = WriteTask(sink, producer, tasks, self.dead_letters_max, self.delivery)
        try:
            report = report_from_arrow(df.mapInArrow(write, REPORT_DDL).toArrow())
        except Exception as error:
            if self.shuffles or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name not in str(error):
                raise
            self.shuffles = True
            raise TwoWritersError("several tasks wrote to one partition") from error
        if producer is not None:
            self._check_one_writer_each(report)
        return report

    def _tasks_of(self, df: DataFrame) -> int:
        """How many tasks write, at most; decides whether rows are shuffled to them."""
        writers_max = self._writers_max()
        if not self.is_micro_batch:
            tasks = writers_max  # to ask a batch DataFrame for its tasks would run half of it
        else:
            tasks = min(max(df._jdf.queryExecution().toRdd().getNumPartitions(), 1), writers_max)
        if self.delivery is Delivery.EXACTLY_ONCE and not self.shuffles:
            self.shuffles = self._is_likely_mixed(df, tasks, writers_max)
        return min(writers_max, df.sparkSession.sparkContext.defaultParallelism) if self.shuffles else tasks

    def _shuffled(self, df: DataFrame, tasks: int) -> DataFrame:
        kept = [field for field in df.schema.fields if field.name not in ROUTED_COLUMNS]
        schema = StructType([*kept, *ROUTED])
        routed = df.mapInArrow(RouteTask(self.sink, tasks), schema)
        return routed.repartitionById(tasks, F.col(TASK_COLUMN)).drop(TASK_COLUMN)

    def _is_likely_mixed(self, df: DataFrame, tasks: int, partitions: int) -> bool:
        """Rows that must go to a certain partition, from tasks that do not look like those partitions."""
        chosen = {"key", "partition"} & set(df.columns) or callable(self.sink.partition_by)
        if self.sink.partition_by == PartitionBy.ROUND_ROBIN or not chosen:
            return self.sink.topic is None
        return not self.is_micro_batch or tasks not in (1, partitions)

    def _writers_max(self) -> int:
        """Never more writers than partitions, where the topic is known."""
        if self.sink.topic is None:
            return WRITERS_MAX
        shape = self.shapes.of(self.sink.topic)
        return shape.partitions if shape is not None else 1

    def _check_one_writer_each(self, report: Report) -> None:
        writers = Counter((written.topic, written.partition) for written in report.written)
        doubled = [f"{topic}-{partition}" for (topic, partition), count in writers.items() if count > 1]
        if doubled:
            self.shuffles = True
            raise TwoWritersError(f"several tasks wrote to {', '.join(sorted(doubled)[:5])}")
