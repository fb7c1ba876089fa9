"""Records per second of the Arrow codec: `python -m benchmarks.codec`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from oncestream.records.arrow_decode import decode_batches
from oncestream.records.arrow_encode import EncodedBatch, encode_batches, partition_of_keys
from oncestream.records.arrow_headers import HEADERS_TYPE
from oncestream.records.compression import Codec

ROWS: Final = 40_000  # about one fetch of 4 MB
ROUNDS: Final = 15
BATCH_BYTES_MAX: Final = 1024 * 1024
SMALL_BATCH_BYTES_MAX: Final = 1300  # ten records of 100 bytes
NOW_MS: Final = 1_700_000_000_000


def main() -> None:
    table = Table(
        "load", "encode M/s", "decode M/s", title=f"Arrow codec, {ROWS:,} records, best of {ROUNDS}"
    )
    plain = _rows(100)
    for size in (10, 100, 1000):
        _measure(table, f"{size} B values", _rows(size))
    _measure(table, "50 to 150 B values", _rows_of_many_sizes())
    _measure(table, "100 B values, 12 B keys", _with_keys(plain))
    _measure(table, "100 B values, 2 headers", _with_headers(plain))
    _measure(table, "100 B values, ten to a batch", plain, size_bytes_max=SMALL_BATCH_BYTES_MAX)
    for codec in (Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP):
        _measure(table, f"100 B values, {codec.name.lower()}", plain, codec=codec)
    keys = _with_keys(plain).column("key")
    table.add_row("partitions of 12 B keys", _rate(lambda: partition_of_keys(keys, 12)), "")
    Console().print(table)


def _measure(
    table: Table,
    load: str,
    rows: pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    size_bytes_max: int = BATCH_BYTES_MAX,
) -> None:
    def encode() -> list[EncodedBatch]:
        return encode_batches(rows, codec=codec, size_bytes_max=size_bytes_max, now_ms=NOW_MS)

    data = b"".join(batch.data for batch in encode())
    headers = "headers" in rows.schema.names
    decode_rate = _rate(lambda: decode_batches(data, start_offset=0, headers=headers))
    table.add_row(load, _rate(encode), decode_rate)


def _rate(work: Callable[[], object]) -> str:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return f"{ROWS / best / 1e6:.2f}"


def _rows(size: int) -> pa.RecordBatch:
    values = [b"%0*d" % (size, number) for number in range(ROWS)]
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def _rows_of_many_sizes() -> pa.RecordBatch:
    sizes = np.random.default_rng(1).integers(50, 150, ROWS).tolist()
    return pa.record_batch({"value": pa.array([b"x" * size for size in sizes], pa.binary())})


def _with_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("key", pa.array([b"key-%08d" % number for number in range(ROWS)], pa.binary()))


def _with_headers(rows: pa.RecordBatch) -> pa.RecordBatch:
    headers = [{"key": "origin", "value": b"pump"}, {"key": "trace", "value": b"0123456789abcdef"}]
    return rows.append_column("headers", pa.array([headers] * ROWS, HEADERS_TYPE))


if __name__ == "__main__":
    main()
