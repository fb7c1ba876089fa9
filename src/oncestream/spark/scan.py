"""Reads ranges of offsets as Spark rows: in a task, or in the planner where there are few."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from oncestream.client.cluster import Cluster, cluster_of
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.reading import read_many, read_range
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import DataLost, OncestreamError, SourceDataLost, UnknownTopic
from oncestream.spark.ranges import Range
from oncestream.spark.rows import rows_of
from oncestream.spark.source_options import SourceOptions

# More bytes than this are read by tasks: they would pass through the planner and Spark's block store.
PREFETCH_BYTES_MAX: Final = 8 * 1024 * 1024
_log = logging.getLogger(__name__)
_frozen_in: list[int] = []


def scan(options: SourceOptions, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """In a task: every visible record of the ranges, as it comes in."""
    _freeze_garbage_once()
    cluster = cluster_of(options.client)
    for partition, records in _records(cluster, options, ranges):
        if records.num_rows:
            yield rows_of(partition, records, headers=options.headers)


def prefetch(options: SourceOptions, ranges: Sequence[Range]) -> list[pa.RecordBatch] | None:
    """In the planner: all rows in one batch, or None where they are too many bytes."""
    found: list[pa.RecordBatch] = []
    size_bytes = 0
    with closing(_records(cluster_of(options.client), options, ranges)) as fetched:
        for partition, records in fetched:
            size_bytes += records.nbytes
            if size_bytes > PREFETCH_BYTES_MAX:
                return None
            if records.num_rows:
                found.append(rows_of(partition, records, headers=options.headers))
    return [pa.concat_batches(found)] if found else []


def lost(options: SourceOptions, partition: TopicPartition, offset: int, reason: object) -> None:
    """Data that should have been read is gone: an error, or a warning where the user allowed it."""
    error = SourceDataLost(topic=partition.topic, partition=partition.partition, offset=offset, reason=reason)
    if options.fail_on_data_loss:
        raise error
    _log.warning("%s; going on, as failOnDataLoss is false", error.cause_text)


def _records(
    cluster: Cluster, options: SourceOptions, ranges: Sequence[Range]
) -> Generator[tuple[TopicPartition, pa.RecordBatch]]:
    left = {one.partition: (one.start, one.end) for one in ranges}
    assert len(left) == len(ranges), "a task reads two ranges of one partition"
    while left:
        try:
            for partition, records in _fetched(cluster, options, left):
                if records.num_rows:
                    left[partition] = (records.column("offset")[-1].as_py() + 1, left[partition][1])
                yield partition, records
            return
        except (DataLost, UnknownTopic) as error:
            left = _what_is_left(cluster, options, left, error)


def _fetched(
    cluster: Cluster, options: SourceOptions, left: Mapping[TopicPartition, tuple[int, int]]
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    if len(left) > 1:
        yield from read_many(
            cluster, dict(left), read_committed=options.read_committed, headers=options.headers
        )
        return
    for partition, (start, end) in left.items():
        for records in read_range(
            cluster, partition, start, end, read_committed=options.read_committed, headers=options.headers
        ):
            yield partition, records


def _what_is_left(
    cluster: Cluster,
    options: SourceOptions,
    left: Mapping[TopicPartition, tuple[int, int]],
    error: OncestreamError,
) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges as far as the logs still hold them; an error unless the user allowed the loss."""
    remaining = {}
    for partition, (start, end) in left.items():
        first, after = _held(cluster, partition)
        if first == after == 0:
            lost(options, partition, start, "the topic or partition is gone, or empty")
        elif first > start:
            lost(options, partition, start, f"the log starts at {first} (deleted by retention or by hand)")
        elif after < end:
            lost(
                options,
                partition,
                max(start, after),
                f"the log ends at {after}: it was deleted and made anew",
            )
        if max(start, first) < min(end, after):
            remaining[partition] = (max(start, first), min(end, after))
    if remaining == left:
        raise error
    return remaining


def _held(cluster: Cluster, partition: TopicPartition) -> tuple[int, int]:
    """The first offset of the log and the one after its last."""
    try:
        first = list_offsets(cluster, {partition: EARLIEST}, read_committed=False)[partition]
        after = list_offsets(cluster, {partition: LATEST}, read_committed=False)[partition]
    except UnknownTopic:
        return 0, 0
    return first or 0, after or 0


def _freeze_garbage_once() -> None:
    """Spark collects garbage after every task: what a worker has imported need not be looked at each time."""
    if os.getpid() not in _frozen_in:
        _frozen_in[:] = [os.getpid()]
        gc.collect()
        gc.freeze()
