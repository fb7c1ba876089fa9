"""Which partition each row goes to, and which rows can go nowhere."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadStreamName
from oncestream.records.arrow_encode import partition_of_keys, record_sizes
from oncestream.records.batch import HEADER_SIZE
from oncestream.spark.shapes import TIME_LIMITS, Shape, TopicShapes
from oncestream.spark.sink import PartitionBy, Partitioner, Sink
from oncestream.streams.names import parse_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE: Final = -1
_TURNS: Final = itertools.count()  # small batches, one after another, start with different partitions
INT64_MAX: Final = 2**63 - 1
RECORD_OVERHEAD_BYTES_MAX: Final = 64  # of a record without headers


@dataclass(frozen=True, slots=True)
class Share:
    """Which of the writing tasks this is; rows that may go anywhere stay in partitions of its own."""

    task: int = 0
    tasks: int = 1

    def partitions_of(self, partitions: int) -> range:
        own = range(self.task, partitions, self.tasks)
        return own or range(self.task % partitions, self.task % partitions + 1)


class Rows(NamedTuple):
    """Rows that go to one partition."""

    to: TopicPartition
    rows: pa.RecordBatch


class Refused(NamedTuple):
    """Rows that become dead letters, all for one reason; None: column `error` says why."""

    rows: pa.RecordBatch
    reason: str | None


class Router:
    """Splits batches of rows by topic and partition."""

    def __init__(self, sink: Sink, shapes: TopicShapes, share: Share) -> None:
        self._sink = sink
        self._shapes = shapes
        self._share = share
        self._turn = next(_TURNS)

    def split(self, rows: pa.RecordBatch) -> Iterator[Rows | Refused]:
        """Every row once: to a partition, or refused."""
        rows, broken = split_off(rows, _errors(rows))
        if broken.num_rows:
            yield Refused(broken, None)
        for name, of_topic in self._by_topic(rows):
            try:
                topic = parse_topic(name) if name is not None and name.startswith("/") else name
            except BadStreamName as error:
                yield Refused(of_topic, error.cause_text)
                continue
            shape = self._shapes.of(topic) if topic is not None else None
            if shape is None:
                yield Refused(
                    of_topic, "no topic is given" if topic is None else f"there is no topic {topic!r}"
                )
            else:
                yield from self._by_partition(topic, shape, of_topic)  # type: ignore[arg-type]

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
        if rows.num_rows == 0:
            return
        if self._sink.topic is not None:
            yield self._sink.topic, rows
            return
        topics = rows.column("topic").dictionary_encode(null_encoding="encode")
        codes = topics.indices.to_numpy(zero_copy_only=False)
        names = topics.dictionary.to_pylist()
        for code, of_topic in _groups(rows, codes):
            yield names[code], of_topic

    def _by_partition(self, topic: str, shape: Shape, rows: pa.RecordBatch) -> Iterator[Rows | Refused]:
        for is_refused, reason in (
            (
                _too_large,
                f"the record is larger than max.message.bytes = {shape.message_bytes_max} of {topic!r}",
            ),
            (_keyless, f"{topic!r} is compacted: it takes no record without a key"),
            (_out_of_time, f"{topic!r} takes no record of that time ({TIME_LIMITS})"),
        ):
            rows, refused = split_off(rows, is_refused(rows, shape))
            if refused.num_rows:
                yield Refused(refused, reason)
        if rows.num_rows and not isinstance(self._sink.partition_by, PartitionBy):
            yield from self._by_function(topic, shape, rows, self._sink.partition_by)
        elif rows.num_rows:
            yield from self._by_choice(topic, shape, rows)

    def _by_function(
        self, topic: str, shape: Shape, rows: pa.RecordBatch, partitioner: Partitioner
    ) -> Iterator[Rows | Refused]:
        chosen = np.empty(rows.num_rows, np.int32)
        failed: list[tuple[int, str]] = []
        for index, row in enumerate(rows.to_pylist()):
            try:
                chosen[index] = partitioner(row, shape.partitions)
            except Exception as error:
                failed.append((index, f"partition_by: {type(error).__name__}: {error}"))
        for index, reason in failed:
            yield Refused(rows.slice(index, 1), reason)
        if failed:
            bad = np.zeros(rows.num_rows, np.bool_)
            bad[[index for index, _ in failed]] = True
            rows, chosen = split_off(rows, bad)[0], chosen[~bad]
        if rows.num_rows:
            yield from _to_partitions(topic, shape, rows, chosen)

    def _by_choice(self, topic: str, shape: Shape, rows: pa.RecordBatch) -> Iterator[Rows | Refused]:
        partitions = self._choose(shape, rows)
        if isinstance(partitions, int):
            yield Rows(TopicPartition(topic, partitions), rows)
        else:
            yield from _to_partitions(topic, shape, rows, partitions)

    def _choose(self, shape: Shape, rows: pa.RecordBatch) -> int | NDArray[np.int32]:
        by = self._sink.partition_by
        assert isinstance(by, PartitionBy)
        names = rows.schema.names
        own = self._share.partitions_of(shape.partitions)
        self._turn += 1
        anywhere = own[self._turn % len(own)]
        column = by in (PartitionBy.AUTO, PartitionBy.COLUMN) and "partition" in names
        if column and rows.column("partition").null_count == 0:
            return _int32(rows.column("partition").to_numpy(zero_copy_only=False))
        if by == PartitionBy.ROUND_ROBIN or not (column or "key" in names):
            return anywhere
        chosen_by_key = self._by_key(rows, shape, anywhere)
        if not column:
            return chosen_by_key
        given = pc.fill_null(rows.column("partition"), pa.scalar(NOWHERE, pa.int32())).to_numpy()
        absent = rows.column("partition").is_null().to_numpy(zero_copy_only=False)
        return _int32(np.where(absent, chosen_by_key, given))

    def _by_key(self, rows: pa.RecordBatch, shape: Shape, anywhere: int) -> int | NDArray[np.int32]:
        if "key" not in rows.schema.names or rows.column("key").null_count == rows.num_rows:
            return anywhere
        chosen = partition_of_keys(rows.column("key"), shape.partitions)
        return _int32(np.where(chosen < 0, anywhere, chosen))


def _to_partitions(
    topic: str, shape: Shape, rows: pa.RecordBatch, partitions: NDArray[np.int32]
) -> Iterator[Rows | Refused]:
    for partition, of_partition in _groups(rows, partitions):
        if 0 <= partition < shape.partitions:
            yield Rows(TopicPartition(topic, partition), of_partition)
        else:
            reason = f"{topic!r} has no partition {partition}, only 0 to {shape.partitions - 1}"
            yield Refused(of_partition, reason)


def task_of(to: TopicPartition, tasks: int) -> int:
    """The one task, of so many, that writes this partition."""
    return (zlib.crc32(to.topic.encode()) + to.partition) % tasks


def split_off(rows: pa.RecordBatch, bad: NDArray[np.bool_] | None) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The good rows and the bad."""
    if bad is None or not bad.any():
        return rows, rows.slice(0, 0)
    return rows.filter(pa.array(~bad)), rows.filter(pa.array(bad))


def _errors(rows: pa.RecordBatch) -> NDArray[np.bool_] | None:
    if "error" not in rows.schema.names or rows.column("error").null_count == rows.num_rows:
        return None
    return cast("NDArray[np.bool_]", rows.column("error").is_valid().to_numpy(zero_copy_only=False))


def _too_large(rows: pa.RecordBatch, shape: Shape) -> NDArray[np.bool_] | None:
    if "headers" not in rows.schema.names:
        largest = sum(
            pc.max(pc.binary_length(rows.column(name))).as_py() or 0
            for name in ("key", "value")
            if name in rows.schema.names
        )
        if largest + RECORD_OVERHEAD_BYTES_MAX + HEADER_SIZE <= shape.message_bytes_max:
            return None
    return record_sizes(rows) + HEADER_SIZE > shape.message_bytes_max


def _keyless(rows: pa.RecordBatch, shape: Shape) -> NDArray[np.bool_] | None:
    if not shape.needs_key:
        return None
    if "key" not in rows.schema.names:
        return np.ones(rows.num_rows, np.bool_)
    return cast("NDArray[np.bool_]", rows.column("key").is_null().to_numpy(zero_copy_only=False))


def _out_of_time(rows: pa.RecordBatch, shape: Shape) -> NDArray[np.bool_] | None:
    if "timestamp" not in rows.schema.names or rows.column("timestamp").null_count == rows.num_rows:
        return None
    now_ms = int(time.time() * 1000)
    times = pc.divide(rows.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1000)
    times_ms: NDArray[np.int64] = pc.fill_null(times, now_ms).to_numpy(zero_copy_only=False)
    latest_ms = min(now_ms + shape.time_after_max_ms, INT64_MAX)
    return (times_ms < now_ms - shape.time_before_max_ms) | (times_ms > latest_ms)


def _int32(values: NDArray[Any]) -> NDArray[np.int32]:
    return values.astype(np.int32, copy=False)


def _groups(rows: pa.RecordBatch, codes: NDArray[np.integer]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each code, in their order."""
    if (codes == codes[0]).all():
        yield int(codes[0]), rows
        return
    order = np.argsort(codes, kind="stable")
    ordered = rows.take(pa.array(order))
    codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield int(codes[start]), ordered.slice(start, end - start)
