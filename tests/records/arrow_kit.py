"""Random records, and what Arrow must show of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from oncestream.records.records import Header, Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMESTAMP_MAX = 2**62  # two of them still differ by an int64

values = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 300).map(lambda size: b"x" * size))
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_001_000),
    st.integers(-1, 2**40),
    st.integers(-TIMESTAMP_MAX, TIMESTAMP_MAX - 1),
)
headers = st.lists(st.builds(Header, st.text(max_size=8), values), max_size=4).map(tuple)
contents = st.tuples(timestamps, values, values, headers)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """(offset, timestamp ms, key, value, headers) of each row; headers only if the column is there."""
    named = batch.schema.names
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    lists = batch.column("headers").to_pylist() if "headers" in named else [None] * batch.num_rows
    return [
        (offset, time // 1000, key, value, tuple((entry["key"], entry["value"]) for entry in entries or ()))
        for offset, time, key, value, entries in zip(
            batch.column("offset").to_pylist(),
            times,
            batch.column("key").to_pylist(),
            batch.column("value").to_pylist(),
            lists,
            strict=True,
        )
    ]


def _text(name: str) -> str:
    """Bytes that are no text: single records keep them as they are, Arrow has a replacement sign, as Java has."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def shown(records: Sequence[Record], *, with_headers: bool = True) -> list[tuple[Any, ...]]:
    """What `rows_of` must give for these records."""
    largest = (2**63 - 1) // 1000
    return [
        (
            record.offset,
            min(max(record.timestamp, -largest), largest),
            record.key,
            record.value,
            tuple((_text(name), value) for name, value in record.headers) if with_headers else (),
        )
        for record in records
    ]


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)
