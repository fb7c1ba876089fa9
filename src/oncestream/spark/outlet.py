"""Writes rows under a shared producer and reports what it wrote and what it refused; in tasks and on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from oncestream.client.cluster import Cluster
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer, Transactions, idempotent_producer
from oncestream.client.writing import Writer, Written
from oncestream.records.arrow_headers import HEADERS_TYPE
from oncestream.spark.routing import Refused, Router, Share
from oncestream.spark.shapes import TopicShapes
from oncestream.spark.sink import Sink

_ORIGIN: Final = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
# One row per written partition (no error), and one per dead letter.
REPORT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("rows", pa.int64()),
        ("error", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
        ("origin", _ORIGIN),
    ]
)
REPORT_DDL: Final = (
    "topic string, partition int, first_offset long, last_offset long, rows long, error string, key binary,"
    " value binary, headers array<struct<key: string, value: binary>>,"
    " origin struct<topic: string, partition: int, offset: long>"
)


class Origin(NamedTuple):
    topic: str | None
    partition: int | None
    offset: int | None


class DeadLetter(NamedTuple):
    """A row that could not be written, why, and where it came from."""

    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    origin: Origin | None


class Report(NamedTuple):
    written: list[Written]
    dead: list[DeadLetter]

    @property
    def rows(self) -> int:
        return sum(written.rows for written in self.written)


class Outlet:
    """One writer's side of a batch: rows in, one report out."""

    def __init__(
        self,
        cluster: Cluster,
        sink: Sink,
        shapes: TopicShapes,
        producer: Producer | None,
        *,
        share: Share = Share(),  # noqa: B008 - immutable
        dead_letters_max: int,
    ) -> None:
        self._router = Router(sink, shapes, share)
        self._shapes = shapes
        self._dead: list[DeadLetter] = []
        self._dead_letters_max = dead_letters_max
        self._transactions = (
            Transactions.joined(cluster, sink.pipeline, producer) if producer is not None else None
        )
        self._writer = Writer(
            cluster,
            producer=producer or idempotent_producer(cluster),
            transactional_id=sink.pipeline if producer is not None else None,
            codec=sink.codec,
        )

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> Report:
        """Every row, until all is acknowledged.

        Where more are refused than a batch may have, it will be aborted: the rest are not written.
        """
        try:
            for rows in batches:
                self.write(rows)
                if len(self._dead) > self._dead_letters_max:
                    break
            return self.finish()
        finally:
            self.close()

    def write(self, rows: pa.RecordBatch) -> None:
        for part in self._router.split(rows):
            if isinstance(part, Refused):
                self._refuse(part)
            else:
                self.write_to(part.to, part.rows)

    def write_to(self, to: TopicPartition, rows: pa.RecordBatch) -> None:
        """Rows whose partition is decided."""
        if self._transactions is not None:
            self._transactions.add_partitions([to])
        shape = self._shapes.of(to.topic)
        assert shape is not None, f"{to.topic} was there a moment ago"
        self._writer.write(to, rows, batch_bytes_max=shape.message_bytes_max)

    def finish(self) -> Report:
        """Waits until everything is acknowledged."""
        return Report(self._writer.flush(), self._dead)

    def close(self) -> None:
        self._writer.close()

    def _refuse(self, refused: Refused) -> None:
        self._dead += [dead_letter_of(row, refused.reason) for row in refused.rows.to_pylist()]


def dead_letter_of(row: dict[str, Any], reason: str | None) -> DeadLetter:
    """The input as it was where the row remembers it, else the row itself."""
    origin = row.get("origin") or {}
    remembers = origin.get("key") is not None or origin.get("value") is not None
    return DeadLetter(
        reason or row["error"],
        origin["key"] if remembers else row.get("key"),
        origin["value"] if remembers else row.get("value"),
        tuple((header["key"], header["value"]) for header in row.get("headers") or ()),
        Origin(origin["topic"], origin["partition"], origin["offset"]) if origin else None,
    )


def report_to_arrow(report: Report) -> pa.RecordBatch:
    """A report as rows of `REPORT`, the way a task sends it to the driver."""
    rows: list[dict[str, Any]] = [written._asdict() for written in report.written]
    rows += [
        {
            "error": letter.reason,
            "key": letter.key,
            "value": letter.value,
            "headers": [{"key": key, "value": value} for key, value in letter.headers],
            "origin": letter.origin._asdict() if letter.origin is not None else None,
        }
        for letter in report.dead
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REPORT)


def report_from_arrow(table: pa.Table) -> Report:
    """The reports of all tasks in one."""
    report = Report([], [])
    for row in table.to_pylist():
        if row["error"] is not None:
            report.dead.append(dead_letter_of(row, None))
        else:
            report.written.append(
                Written(row["topic"], row["partition"], row["first_offset"], row["last_offset"], row["rows"])
            )
    return report
