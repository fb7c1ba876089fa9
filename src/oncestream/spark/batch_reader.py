"""The batch side of the source: a table over a range of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from oncestream.client.cluster import Cluster, cluster_of
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadSourceOption
from oncestream.spark.places import find
from oncestream.spark.plain_errors import plain_errors
from oncestream.spark.ranges import Range, Task, tasks_of
from oncestream.spark.scan import scan
from oncestream.spark.source_options import SourceOptions

# A table has no order to keep, so a big partition is split over tasks without being asked.
TASK_RECORDS_MAX: Final = 1_000_000


class BatchReader(DataSourceReader):
    """Finds start and end once, in `partitions`; every task reads its ranges."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        task_records_max = options.task_records_max or (None if options.tasks_min else TASK_RECORDS_MAX)
        with plain_errors():
            ranges = self._ranges()
        return tasks_of(ranges, tasks_min=options.tasks_min, task_records_max=task_records_max) or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        return scan(self._options, partition.ranges)

    def _ranges(self) -> list[Range]:
        options = self._options
        cluster = cluster_of(options.client)
        chosen = options.selection.partitions(cluster)
        starts, ends = (
            find(cluster, place, chosen, group=options.group, read_committed=options.read_committed)
            for place in (options.start, options.end)
        )
        self._refuse_ends_to_come(cluster, ends)
        ranges = []
        for partition in chosen:
            start, end = starts[partition], ends[partition]
            if start > end and partition in options.start.offsets:
                raise BadSourceOption(
                    name="startingOffsets", reason=f"{partition} would start at {start} and end at {end}"
                )
            if start < end:
                ranges.append(Range(partition, start, end))
        return ranges

    def _refuse_ends_to_come(self, cluster: Cluster, ends: Mapping[TopicPartition, int]) -> None:
        """A read up to an offset that is not there yet would wait for it."""
        given = {one: LATEST for one, offset in self._options.end.offsets.items() if offset >= 0}
        latest = list_offsets(cluster, given, read_committed=self._options.read_committed) if given else {}
        for partition, last in latest.items():
            if last is not None and ends[partition] > last:
                raise BadSourceOption(
                    name="endingOffsets",
                    reason=f"{partition} would end at {ends[partition]} and can be read up to {last}",
                )
