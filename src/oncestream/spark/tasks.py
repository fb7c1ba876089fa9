"""What runs in Spark's Python workers: giving rows their partition, and writing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, StringType, StructField

from oncestream.client.cluster import Cluster, cluster_of
from oncestream.client.transactions import Producer
from oncestream.errors import TaskRetried
from oncestream.spark.outlet import Outlet, report_to_arrow
from oncestream.spark.routing import Refused, Router, Share, task_of
from oncestream.spark.shapes import TopicShapes
from oncestream.spark.sink import Delivery, Sink

TASK_COLUMN: Final = "_task"
ROUTED: Final = (
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("error", StringType()),
    StructField(TASK_COLUMN, IntegerType()),
)
ROUTED_COLUMNS: Final = tuple(field.name for field in ROUTED)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes a task's rows under the batch's producer and yields one report."""

    sink: Sink
    producer: Producer | None
    tasks: int
    dead_letters_max: int
    delivery: Delivery

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs inside a Spark task"
        attempt = context.attemptNumber()
        # Rows of a second attempt may come in another order: the broker would take its batches for resends
        # of the first attempt's and drop them.
        if attempt > 0 and self.delivery is not Delivery.AT_LEAST_ONCE:
            raise TaskRetried(task=context.partitionId(), attempt=attempt)
        cluster = cluster_of(self.sink.settings)
        outlet = Outlet(
            cluster,
            self.sink,
            shapes_of(cluster),
            self.producer,
            share=Share(context.partitionId(), self.tasks),
            dead_letters_max=self.dead_letters_max,
        )
        yield report_to_arrow(outlet.write_all(batches))


@dataclass(frozen=True, slots=True)
class RouteTask:
    """Gives every row its topic, its partition and the task that will write it, before they are shuffled."""

    sink: Sink
    tasks: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs inside a Spark task"
        cluster = cluster_of(self.sink.settings)
        router = Router(self.sink, shapes_of(cluster), Share(context.partitionId(), 1))
        for rows in batches:
            for part in router.split(rows):
                if isinstance(part, Refused):
                    reason = part.reason
                    errors = (
                        part.rows.column("error")
                        if reason is None
                        else pa.array([reason] * part.rows.num_rows)
                    )
                    yield _routed(part.rows, None, None, errors, 0)
                else:
                    task = task_of(part.to, self.tasks)
                    yield _routed(part.rows, part.to.topic, part.to.partition, None, task)


def shapes_of(cluster: Cluster) -> TopicShapes:
    """The shapes this process knows, kept as long as its connection to the cluster."""
    known = _SHAPES.get(id(cluster))
    if known is None or known[0] is not cluster:
        known = _SHAPES[id(cluster)] = (cluster, TopicShapes(cluster))
    return known[1]


_SHAPES: Final[dict[int, tuple[Cluster, TopicShapes]]] = {}


def _routed(
    rows: pa.RecordBatch, topic: str | None, partition: int | None, errors: pa.Array | None, task: int
) -> pa.RecordBatch:
    count = rows.num_rows
    kept = [name for name in rows.schema.names if name not in ROUTED_COLUMNS]
    columns = [rows.column(name) for name in kept]
    columns += [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.nulls(count, pa.string()) if errors is None else errors,
        pa.array(np.full(count, task, np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*kept, *ROUTED_COLUMNS])
