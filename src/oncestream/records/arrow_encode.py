"""Arrow columns to record batches, whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oncestream.records.arrow_binary import (
    VIEW_WORDS,
    Column,
    binary_from_views,
    column_of,
    fill_inline,
    fill_views,
    valid_rows,
)
from oncestream.records.arrow_hash import key_hashes
from oncestream.records.arrow_headers import EncodedHeaders, encode_headers
from oncestream.records.arrow_varints import Bytes, Ints, Piece, joined_pieces, varint_pieces, varint_widths
from oncestream.records.batch import (
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER,
    SEQUENCE_MAX,
    TRANSACTIONAL,
    BatchHeader,
    join_batch,
)
from oncestream.records.compression import Codec, compress

BATCH_ROWS_MAX: Final = 8192  # the last offset delta still takes two bytes
OFFSET_DELTA_BYTES_MAX: Final = 2
BLOCK_ROWS_MAX: Final = 4 * BATCH_ROWS_MAX
BLOCK_BYTES_MAX: Final = 512 * 1024 * 1024  # Arrow's binary columns end at 2 GB
ATTRIBUTES_BYTES: Final = 1
INT64_MAX: Final = 2**63 - 1


class EncodedBatch(NamedTuple):
    data: bytearray
    rows: int


def encode_batches(
    rows: pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    size_bytes_max: int,
    now_ms: int,
) -> list[EncodedBatch]:
    """Batches of at most `size_bytes_max` bytes before compression; a larger record stands alone.

    Columns: value, and if there key, headers and timestamp (null: `now_ms`). Others are left out.
    Offsets start at 0 in each batch: the broker gives the real ones.
    """
    template = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=0,
    )
    batches: list[EncodedBatch] = []
    for block in _blocks(rows):
        for records, timestamps in _encode_block(_fields_of(block), _times(block, now_ms), size_bytes_max):
            header = template._replace(
                last_offset_delta=len(timestamps) - 1,
                base_timestamp=int(timestamps[0]),
                max_timestamp=int(timestamps.max()),
                count=len(timestamps),
            )
            payload = records if codec == Codec.NONE else compress(codec, records)
            batches.append(EncodedBatch(join_batch(header, payload), len(timestamps)))
            if base_sequence >= 0:
                sequence = (template.base_sequence + len(timestamps)) & SEQUENCE_MAX
                template = template._replace(base_sequence=sequence)
    return batches


def record_sizes(rows: pa.RecordBatch) -> Ints:
    """Bytes of each record where it stands first in a batch; a batch adds HEADER_SIZE to its records."""
    sizes = [_with_length(_fields_of(block).sizes + ATTRIBUTES_BYTES + 2) for block in _blocks(rows)]
    return np.concatenate([np.zeros(0, np.int64), *sizes])


def partition_of_keys(keys: pa.Array, partitions: int) -> npt.NDArray[np.int32]:
    """The partition Kafka's Java producer gives each key; -1 for null."""
    column = column_of(keys)
    found = (key_hashes(column) % partitions).astype(np.int32)
    found[column.lengths < 0] = -1
    return found


class _Fields(NamedTuple):
    """What follows the offset in each record. `key` or `headers` is None where no record has one."""

    key: Column | None
    value: Column
    headers: EncodedHeaders | None

    @property
    def sizes(self) -> Ints:
        sizes = self.value.sizes + (1 if self.key is None else self.key.sizes)
        if self.headers is None:
            return sizes + 1
        return sizes + varint_widths(self.headers.counts) + self.headers.column.lengths


def _blocks(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    count = rows.num_rows
    if count > BLOCK_ROWS_MAX or (count > 1 and rows.nbytes > BLOCK_BYTES_MAX):
        unit = BATCH_ROWS_MAX if count > BATCH_ROWS_MAX else 1  # so that batches stay full
        half = -(-count // (2 * unit)) * unit
        yield from _blocks(rows.slice(0, half))
        yield from _blocks(rows.slice(half))
    elif count:
        yield rows


def _fields_of(rows: pa.RecordBatch) -> _Fields:
    key = _column(rows, "key")
    headers = _column(rows, "headers")
    return _Fields(
        None if key is None else column_of(key),
        column_of(rows.column("value")),
        None if headers is None else encode_headers(headers),
    )


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """The column, unless it is missing or all null."""
    index = rows.schema.get_field_index(name)
    if index < 0 or rows.column(index).null_count == rows.num_rows:
        return None
    return rows.column(index)


def _times(rows: pa.RecordBatch, now_ms: int) -> Ints:
    array = _column(rows, "timestamp")
    if array is None:
        return np.full(rows.num_rows, now_ms, np.int64)
    times = array.cast(pa.int64())
    milliseconds: Ints = times.fill_null(0).to_numpy()
    if pa.types.is_timestamp(array.type):
        match array.type.unit:
            case "s":
                milliseconds = milliseconds * 1000
            case "us":
                milliseconds = milliseconds // 1000
            case "ns":
                milliseconds = milliseconds // 1_000_000
    return np.where(valid_rows(times), milliseconds, now_ms) if times.null_count else milliseconds


def _encode_block(fields: _Fields, times: Ints, size_bytes_max: int) -> Iterator[tuple[memoryview, Ints]]:
    """The records of each batch, and their timestamps."""
    sizes = fields.sizes + ATTRIBUTES_BYTES
    spread = min(int(times.max()) - int(times.min()), INT64_MAX)
    widest_delta = int(varint_widths(np.array([spread]))[0])
    bounds = _batch_bounds(
        _with_length(sizes + widest_delta + OFFSET_DELTA_BYTES_MAX), size_bytes_max - HEADER_SIZE
    )
    rows_of_batch = np.diff(bounds)
    offset_deltas = np.arange(len(times)) - np.repeat(bounds[:-1], rows_of_batch)
    time_deltas = times - np.repeat(times[bounds[:-1]], rows_of_batch)
    lengths = sizes + varint_widths(time_deltas) + varint_widths(offset_deltas)
    heads = [
        *varint_pieces(lengths),
        Piece(np.zeros(len(times), np.uint64), np.ones(len(times), np.int64)),
        *varint_pieces(time_deltas),
        *varint_pieces(offset_deltas),
    ]
    data, starts = _join(heads, fields)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield data[starts[first] : starts[last]], times[first:last]


def _batch_bounds(sizes: Ints, size_bytes_max: int) -> Ints:
    """The first row of each batch, and the end."""
    ends = np.concatenate(([0], np.cumsum(sizes)))
    bounds = [0]
    while bounds[-1] < len(sizes):
        first = bounds[-1]
        fitting = int(np.searchsorted(ends, ends[first] + size_bytes_max, "right")) - 1
        bounds.append(min(max(fitting, first + 1), first + BATCH_ROWS_MAX))
    return np.array(bounds)


def _join(heads: list[Piece], fields: _Fields) -> tuple[memoryview, Ints]:
    """The bytes of all records, and where each starts, with the end as the last one."""
    rows = len(fields.value.lengths)
    none = Piece(np.ones(rows, np.uint64), np.ones(rows, np.int64))
    columns: list[tuple[list[Piece], Column | None]] = []
    if fields.key is None:
        heads = [*heads, none]
    else:
        columns.append(([*heads, *fields.key.length_pieces], fields.key))
        heads = []
    columns.append(([*heads, *fields.value.length_pieces], fields.value))
    if fields.headers is None:
        columns.append(([Piece(np.zeros(rows, np.uint64), none.widths)], None))
    else:
        columns.append((varint_pieces(fields.headers.counts), fields.headers.column))
    return _gather(rows, [(joined_pieces(pieces), column) for pieces, column in columns])


def _gather(rows: int, columns: list[tuple[list[Piece], Column | None]]) -> tuple[memoryview, Ints]:
    width = sum(len(pieces) + (column is not None) for pieces, column in columns)
    views = np.zeros((rows, width, VIEW_WORDS), np.int32)
    place = 0
    buffers: list[Bytes] = []
    for pieces, column in columns:
        for piece in pieces:
            fill_inline(views[:, place], piece)
            place += 1
        if column is not None:
            fill_views(views[:, place], column, buffer_index=len(buffers))
            buffers.append(column.data)
            place += 1
    joined = binary_from_views(views, buffers)
    starts = np.frombuffer(joined.buffers()[1], np.int32)[: rows * width + 1 : width]
    return memoryview(joined.buffers()[2]), starts.astype(np.int64)


def _with_length(sizes: Ints) -> Ints:
    """Each size with that of the varint that says it."""
    return sizes + varint_widths(sizes)
