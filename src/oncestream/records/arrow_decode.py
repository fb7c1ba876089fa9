"""Record batches to Arrow columns, whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from oncestream.records.arrow_binary import Column, Mask, binary_of
from oncestream.records.arrow_headers import HEADERS_TYPE, decode_headers
from oncestream.records.arrow_starts import record_starts
from oncestream.records.arrow_varints import Bytes, Ints, read_varints
from oncestream.records.batch import (
    CRC_START,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    parse_header,
)
from oncestream.records.compression import Buffer, Codec, decompress
from oncestream.records.control import marker_of
from oncestream.records.crc import crc32c
from oncestream.wire.error_codes import ErrorCode, KafkaError

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS_TYPE))
MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
PLAIN_BYTES_MAX: Final = 2**31 - 1  # what positions in Arrow's binary columns reach


class Decoded(NamedTuple):
    """Visible records, and the first offset that no whole batch of the buffer covered."""

    batch: pa.RecordBatch
    next_offset: int


def decode_batches(
    buffer: Buffer,
    *,
    start_offset: int,
    end_offset: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    read_committed: bool = True,
    headers: bool = False,
    check_crc: bool = True,
) -> Decoded:
    """The records of a fetch answer with start_offset <= offset < end_offset that a reader may see.

    `aborted` is the answer's list of (producer id, first offset). A last batch that was cut off is
    left for the next fetch; a damaged one raises CORRUPT_MESSAGE. Timestamps that do not fit
    microseconds become the nearest that do.
    """
    view = memoryview(buffer)
    wanted: list[_Part] = []
    next_offset = start_offset
    hidden = _Aborted(aborted if read_committed else ())
    for position, header in _whole_batches(view):
        batch = view[position : position + header.size_bytes]
        if check_crc and crc32c(batch[CRC_START:]) != header.crc:
            raise _corrupt(f"batch at offset {header.base_offset} does not match its checksum")
        next_offset = max(next_offset, header.next_offset)
        if hidden.hides(batch, header) or header.is_control or header.count == 0:
            continue
        if header.last_offset >= start_offset and (end_offset is None or header.base_offset < end_offset):
            wanted.append(_Part(header, position + HEADER_SIZE, position + header.size_bytes))
    schema = SCHEMA_WITH_HEADERS if headers else SCHEMA
    if not wanted:
        return Decoded(pa.RecordBatch.from_pylist([], schema), next_offset)
    try:
        columns = _read_columns(view, wanted, start_offset, end_offset, headers)
    except ValueError as error:
        raise _corrupt(f"records from offset {wanted[0].header.base_offset} on: {error}") from error
    return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema), next_offset)


class _Part(NamedTuple):
    """A batch, and where its plain records start and end."""

    header: BatchHeader
    start: int
    end: int


class _Aborted:
    """Which producers are inside a transaction that was aborted, batch after batch."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._producers: set[int] = set()

    def hides(self, batch: memoryview, header: BatchHeader) -> bool:
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._producers.add(self._coming.pop()[1])
        if header.producer_id not in self._producers or not header.is_transactional:
            return False
        if header.is_control:
            marker = marker_of(batch, header)
            if marker is not None and not marker.commit:
                self._producers.discard(header.producer_id)
        return True


def _whole_batches(view: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while len(view) - position > MAGIC_POSITION:
        if view[position + MAGIC_POSITION] != MAGIC:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"record batch has magic {view[position + MAGIC_POSITION]}, only 2 is read",
            )
        if len(view) - position < HEADER_SIZE:
            return
        header = parse_header(view, position)
        if header.size_bytes < HEADER_SIZE:
            raise _corrupt(f"batch at offset {header.base_offset} says {header.size_bytes} bytes")
        if position + header.size_bytes > len(view):
            return
        yield position, header
        position += header.size_bytes


def _read_columns(
    view: memoryview, parts: list[_Part], start_offset: int, end_offset: int | None, headers: bool
) -> list[pa.Array]:
    plain, parts = _decompressed(view, parts)
    data = np.frombuffer(plain, np.uint8)
    starts, ends = _bounds(plain, data, parts)
    lengths, positions = read_varints(data, starts)
    if (positions + lengths != ends).any():
        raise ValueError("a record's length does not fit")
    timestamp_deltas, positions = read_varints(data, positions + 1)
    offset_deltas, positions = read_varints(data, positions)
    key, positions = _read_field(data, positions, ends)
    value, positions = _read_field(data, positions, ends)
    counts, positions = read_varints(data, positions)
    if (counts < 0).any() or (counts > ends - positions).any():
        raise ValueError("a record's fields do not fit")

    records = np.array([part.header.count for part in parts])
    offsets = np.repeat([part.header.base_offset for part in parts], records) + offset_deltas
    append_time = np.repeat([part.header.log_append_time for part in parts], records)
    timestamps = np.repeat([_time_of(part.header) for part in parts], records)
    timestamps += np.where(append_time, 0, timestamp_deltas)
    np.clip(timestamps, -MILLISECONDS_MAX, MILLISECONDS_MAX, out=timestamps)
    columns = [
        binary_of(key),
        binary_of(value),
        pa.array(offsets),
        pa.array((timestamps * 1000).view("M8[us]"), SCHEMA.field("timestamp").type),
        pa.array(append_time.astype(np.int32)),
    ]
    if headers:
        lists, positions = decode_headers(data, positions, counts)
        columns.append(lists)
    if ((positions if headers else np.where(counts == 0, positions, ends)) != ends).any():
        raise ValueError("a record's length is not its content's")
    return _within(columns, offsets, start_offset, end_offset)


def _decompressed(view: memoryview, parts: list[_Part]) -> tuple[Buffer, list[_Part]]:
    """All plain records in one buffer: the fetched one itself where nothing is compressed."""
    if all(part.header.codec == Codec.NONE for part in parts):
        return view, parts
    payloads = [decompress(part.header.codec, view[part.start : part.end]) for part in parts]
    placed = []
    start = 0
    for part, payload in zip(parts, payloads, strict=True):
        placed.append(_Part(part.header, start, start + len(payload)))
        start += len(payload)
    if start > PLAIN_BYTES_MAX:
        raise ValueError(f"{start} bytes in one answer, at most {PLAIN_BYTES_MAX} are read")
    return b"".join(payloads), placed


def _bounds(plain: Buffer, data: Bytes, parts: list[_Part]) -> tuple[Ints, Ints]:
    """Where each record starts and where it ends."""
    starts = [record_starts(plain, data, part.start, part.end, part.header.count) for part in parts]
    ends = [np.append(found[1:], part.end) for found, part in zip(starts, parts, strict=True)]
    return np.concatenate(starts), np.concatenate(ends)


def _read_field(data: Bytes, positions: Ints, ends: Ints) -> tuple[Column, Ints]:
    lengths, starts = read_varints(data, positions)
    lengths = np.maximum(lengths, -1)
    after = starts + np.maximum(lengths, 0)
    if (after > ends).any():
        raise ValueError("a record's key or value does not fit")
    return Column(data, starts, lengths), after


def _time_of(header: BatchHeader) -> int:
    return header.max_timestamp if header.log_append_time else header.base_timestamp


def _within(
    columns: list[pa.Array], offsets: Ints, start_offset: int, end_offset: int | None
) -> list[pa.Array]:
    wanted: Mask = offsets >= start_offset
    if end_offset is not None:
        wanted &= offsets < end_offset
    if wanted.all():
        return columns
    mask = pa.array(wanted)
    return [column.filter(mask) for column in columns]


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
