"""The streaming side of the source: how far each batch goes, and what its tasks read.

A small batch is read by the planner itself and handed to Spark with the plan, so that no Python worker is
needed for it; it is read while Spark writes its own log and optimizes the query. A big one is read by tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from oncestream.client.cluster import Cluster, cluster_of
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import CheckpointOfOtherCluster
from oncestream.spark.frontier import Frontier
from oncestream.spark.places import find
from oncestream.spark.ranges import Range, Task, tasks_of, total
from oncestream.spark.read_ahead import ReadAhead
from oncestream.spark.scan import lost, prefetch, scan
from oncestream.spark.selection import partitions_so_far
from oncestream.spark.source_options import SourceOptions
from oncestream.spark.stream_offset import StreamOffset

# Up to so many records a batch is read by the planner.
PREFETCH_RECORDS_MAX: Final = 10_000


def _base() -> type[DataSourceStreamReader]:
    """Spark takes rows along with the plan only from its private wrapper of simple readers."""
    try:
        from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
    except ImportError:
        return DataSourceStreamReader
    return (
        _SimpleStreamReaderWrapper
        if hasattr(_SimpleStreamReaderWrapper, "getCache")
        else DataSourceStreamReader
    )


if TYPE_CHECKING:
    _Base = DataSourceStreamReader
else:
    _Base = _base()


class _Planned(NamedTuple):
    """What a batch reads, and its rows where the planner has read them."""

    ranges: list[Range]
    rows: list[pa.RecordBatch] | None


class StreamReader(_Base, SupportsTriggerAvailableNow):
    """Lives in the planner process as long as the query; `read` runs in tasks, on a copy."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._frontier = Frontier(options)
        self._last_batch_s = float("-inf")
        self._stop_at: dict[TopicPartition, int] | None = None
        self._prefetched: tuple[Any, Any, list[pa.RecordBatch]] | None = None
        self._ahead: ReadAhead[_Planned] | None = None

    @property
    def simple_reader(self) -> StreamReader:
        """Spark asks the wrapped reader whether it knows Trigger.AvailableNow."""
        return self

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        cluster = self._cluster()
        selection = self._options.selection
        waits = self._options.waits_for_topics
        partitions = partitions_so_far(selection, cluster, ()) if waits else selection.partitions(cluster)
        found = find(
            cluster,
            self._options.start,
            partitions,
            group=self._options.group,
            read_committed=self._options.read_committed,
        )
        return StreamOffset.initial(cluster.cluster_id, found).logged()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """With both limits set, Spark is told the upper one; the lower is kept to all the same."""
        if self._options.records_max is not None:
            return ReadMaxRows(self._options.records_max)
        if self._options.records_min is not None:
            return ReadMinRows(self._options.records_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = self._frontier.now(self._cluster())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        cluster = self._cluster()
        before = StreamOffset.of(start)
        self._refuse_other_cluster(before, cluster)
        latest = self._latest(cluster, before)
        ranges, found = self._frontier.ahead(cluster, before, latest)
        if not isinstance(limit, ReadAllAvailable):
            if self._too_few(total(ranges)):
                return start
            if isinstance(limit, ReadMaxRows):
                ranges = portion(ranges, limit.max_rows)
        ends = {one.partition: one.end for one in ranges}
        if ends == before.ends:
            return start
        self._last_batch_s = self._clock()
        begins = dict(before.ends) | found if before.is_initial else found
        end = StreamOffset(before.cluster, ends, {one: begins[one] for one in begins if one in ends}).logged()
        self._ahead = ReadAhead(start, end, lambda: self._plan(start, end))
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.is_of(start, end):
            ranges, rows = ahead.result()
        else:
            if ahead is not None:
                ahead.wait()
            ranges, rows = self._plan(start, end)
        self._prefetched = None if rows is None else (start, end, rows)
        if rows is not None:
            return [Task(ranges)]
        return tasks_of(
            ranges, tasks_min=self._options.tasks_min, task_records_max=self._options.task_records_max
        )

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        """Spark asks right after `partitions`: the rows of the batch where the planner has read them."""
        if self._prefetched is None or self._prefetched[:2] != (start, end):
            return None
        return iter(self._prefetched[2])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        return scan(self._options, partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002
        """The rows handed over are no longer needed."""
        self._prefetched = None

    def _plan(self, start: dict[str, Any], end: dict[str, Any]) -> _Planned:
        # Spark also asks with an empty range, after a restart; an offset's own `begins` must not fill it.
        ranges = [] if start == end else self._between(StreamOffset.of(start), StreamOffset.of(end))
        is_small = ranges and _Base is not DataSourceStreamReader and total(ranges) <= PREFETCH_RECORDS_MAX
        return _Planned(ranges, prefetch(self._options, ranges) if is_small else None)

    def _cluster(self) -> Cluster:
        """Its connections serve one thread at a time."""
        if self._ahead is not None:
            self._ahead.wait()
        return cluster_of(self._options.client)

    def _refuse_other_cluster(self, before: StreamOffset, cluster: Cluster) -> None:
        if before.cluster != cluster.cluster_id:
            raise CheckpointOfOtherCluster(
                then=before.cluster, now=cluster.cluster_id, bootstrap=self._options.client.bootstrap_servers
            )

    def _latest(self, cluster: Cluster, before: StreamOffset) -> dict[TopicPartition, int]:
        if self._stop_at is None:
            return self._frontier.now(cluster, before.ends)
        if missed := before.ends.keys() - self._stop_at.keys():
            # A node that has just heard of a topic may not have told of it when the end was set.
            found = self._frontier.now(cluster, missed)
            self._stop_at |= {one: end for one, end in found.items() if one in missed}
        return self._stop_at

    def _too_few(self, records: int) -> bool:
        """Whether to wait for more; a run over what is there now never waits."""
        if self._options.records_min is None or self._stop_at is not None:
            return False
        waited_ms = (self._clock() - self._last_batch_s) * 1000
        return records < self._options.records_min and waited_ms < self._options.delay_ms_max

    def _between(self, start: StreamOffset, end: StreamOffset) -> list[Range]:
        ranges = []
        for partition, until in end.ends.items():
            begin = end.begins.get(partition, start.ends.get(partition))
            assert begin is not None, f"{partition} has an end and no begin"
            if begin > until:
                lost(self._options, partition, begin, f"the batch ends before it, at {until}")
            if begin < until:
                ranges.append(Range(partition, begin, until))
        return ranges


def portion(ranges: Sequence[Range], records_max: int) -> list[Range]:
    """The ranges cut to so many records in all, each by its share, and none that has any left out."""
    records = total(ranges)
    if records <= records_max:
        return list(ranges)
    return [
        Range(one.partition, one.start, one.start + _share(one.records, records_max, records))
        for one in ranges
    ]


def _share(mine: int, records_max: int, records: int) -> int:
    return min(mine, max(mine * records_max // records, 1)) if mine else 0
