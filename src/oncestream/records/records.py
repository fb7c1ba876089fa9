"""The records of a batch, one by one: the slow path, for compaction, look-ups, coordinators and tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from oncestream.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    join_batch,
    parse_header,
)
from oncestream.records.compression import Buffer, Codec, compress, decompress
from oncestream.wire.error_codes import ErrorCode, KafkaError

VARINT_BYTES_MAX: Final = 10
_BYTES_THAT_ARE_NO_TEXT: Final = "surrogateescape"  # names of headers that Kafka takes too: kept as they are


class Header(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def records_of(batch: Buffer, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of one whole batch; CORRUPT_MESSAGE where its bytes do not hold what its header says."""
    header = header or parse_header(batch)
    payload = bytes(decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size_bytes]))
    position = 0
    try:
        for _ in range(header.count):
            record, position = _read_record(payload, position, header)
            yield record
    except (IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"record {position} bytes into its batch: {error}"
        ) from error
    if position != len(payload):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(payload) - position} bytes after the last record")


def build_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    delete_horizon_ms: int | None = None,
    leader_epoch: int = -1,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytearray:
    """A batch of `records`, whose offsets must rise; base and last offset are theirs unless given.

    Under LogAppendTime the largest timestamp of the records stands for all of them.
    """
    if not records and (base_offset is None or last_offset is None):
        raise ValueError("an empty batch needs its offsets told")
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    first_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    attributes = (
        (codec & CODEC_MASK)
        | (LOG_APPEND_TIME if log_append_time else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in records), default=NO_TIMESTAMP),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )
    payload = bytearray()
    for record in records:
        _write_record(payload, record, base_offset, base_timestamp)
    return join_batch(header, compress(codec, payload) if records else b"")


def rebuild_batch(
    original: BatchHeader,
    records: Sequence[Record],
    *,
    delete_horizon_ms: int | None,
    codec: Codec | None = None,
) -> bytearray:
    """`original` with only `records` left in it: offsets, sequences and producer stay as they were."""
    batch = build_batch(
        records,
        codec=original.codec if codec is None else codec,
        producer_id=original.producer_id,
        producer_epoch=original.producer_epoch,
        base_sequence=original.base_sequence,
        transactional=original.is_transactional,
        control=original.is_control,
        log_append_time=original.log_append_time,
        delete_horizon_ms=delete_horizon_ms,
        leader_epoch=original.leader_epoch,
        base_offset=original.base_offset,
        last_offset=original.last_offset,
    )
    if records:
        return batch
    header = parse_header(batch)._replace(max_timestamp=original.max_timestamp)
    return join_batch(header, b"")


def recompress(batch: Buffer, codec: Codec) -> bytearray:
    """The same records under another codec."""
    header = parse_header(batch)
    payload = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size_bytes])
    attributes = (header.attributes & ~CODEC_MASK) | codec
    return join_batch(header._replace(attributes=attributes), compress(codec, payload))


def _read_record(data: bytes, start: int, header: BatchHeader) -> tuple[Record, int]:
    length, position = _read_varint(data, start)
    end = position + length
    if length < 0 or end > len(data):
        raise ValueError(f"length {length} does not fit")
    timestamp_delta, position = _read_varint(data, position + 1)
    offset_delta, position = _read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    count, position = _read_varint(data, position)
    if not 0 <= count <= end - position:
        raise ValueError(f"{count} headers do not fit")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise ValueError("header without a key")
        content, position = _read_bytes(data, position, end)
        headers.append(Header(name.decode(errors=_BYTES_THAT_ARE_NO_TEXT), content))
    if position != end:
        raise ValueError(f"length {length} is not its content's")
    timestamp = header.max_timestamp if header.log_append_time else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers)), end


def _write_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    body = bytearray(1)
    _write_varint(body, record.timestamp - base_timestamp)
    _write_varint(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_bytes(body, name.encode(errors=_BYTES_THAT_ARE_NO_TEXT))
        _write_bytes(body, value)
    _write_varint(out, len(body))
    out += body


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    if length < 0:
        return None, position
    if position + length > end:
        raise ValueError(f"field of {length} bytes does not fit")
    return data[position : position + length], position + length


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)
        return
    _write_varint(out, len(content))
    out += content


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    for index in range(1, VARINT_BYTES_MAX):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise ValueError("varint is too long")


def _write_varint(out: bytearray, value: int) -> None:
    zigzag = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
