"""Batches whose checksum is right and whose records are not what the header says."""

from __future__ import annotations

import time
from typing import Final

from oncestream.records.batch import BatchHeader, join_batch
from oncestream.records.compression import Codec, compress


def varint(value: int, bits: int = 64) -> bytes:
    zigzag = ((value << 1) ^ (value >> 63)) & ((1 << bits) - 1)
    out = bytearray()
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    return bytes(out) + bytes([zigzag])


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(
    number: int = 0,
    *,
    key: bytes = field(b"key"),
    value: bytes = field(b"value"),
    headers: bytes = varint(0),
    time: bytes = varint(0),
    offset: bytes | None = None,
    length: bytes | None = None,
    attributes: bytes = b"\0",
) -> bytes:
    """A record, every field of it as it is on the wire."""
    body = attributes + time + (varint(number) if offset is None else offset) + key + value + headers
    return (varint(len(body)) if length is None else length) + body


def batch_of(
    payload: bytes,
    count: int,
    *,
    codec: Codec = Codec.NONE,
    is_compressed: bool = False,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """A batch of any payload with any count, and the right checksum."""
    at = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes | codec,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=at,
        max_timestamp=at if max_timestamp_ms is None else max_timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    return bytes(join_batch(header, payload if is_compressed else compress(codec, payload)))


_ONE: Final = record()
_HEADER: Final = field(b"h") + field(b"v")

# Payload and count; with each of them something else is wrong.
MALFORMED: Final = {
    "garbage": (bytes(range(200, 250)), 1),
    "nothing": (b"", 1),
    "a count far above the records": (_ONE, 2**31 - 1),
    "one record too few": (_ONE, 2),
    "bytes behind the records": (_ONE + b"\0", 1),
    "one record too many": (_ONE + record(1), 1),
    "cut off": (_ONE[:-1], 1),
    "a length of -1": (record(length=varint(-1)), 1),
    "a length of 0": (record(length=varint(0)), 1),
    "a length that is too small": (record(length=varint(10)), 1),
    "a length that is too large": (record(length=varint(13)) + b"\0\0", 1),
    "a length that is too large, within the batch": (record(length=varint(13)) + record(1), 2),
    "a length of 2^31-1": (record(length=varint(2**31 - 1)), 1),
    "a length of six bytes": (record(length=b"\x98\x80\x80\x80\x80\0"), 1),
    "a key behind the record": (record(key=varint(40) + b"key"), 1),
    "a key behind its record, within the batch": (record(key=varint(14) + b"key") + record(1), 2),
    "a value behind the record": (record(value=varint(7) + b"value"), 1),
    "a value of 2^31-1 bytes": (record(value=varint(2**31 - 1) + b"value"), 1),
    "-1 headers": (record(headers=varint(-1)), 1),
    "a header too few": (record(headers=varint(2) + _HEADER), 1),
    "2^31-1 headers": (record(headers=varint(2**31 - 1) + _HEADER), 1),
    "a header too many": (record(headers=varint(1) + _HEADER + _HEADER), 1),
    "a header without a name": (record(headers=varint(1) + varint(-1) + field(b"v")), 1),
    "a header's name behind the record": (record(headers=varint(1) + varint(9) + b"h" + field(b"v")), 1),
    "a header's value behind the record": (record(headers=varint(1) + field(b"h") + varint(3) + b"v"), 1),
    "a timestamp of eleven bytes": (record(time=b"\x80" * 10 + b"\0"), 1),
    "an offset of six bytes": (record(offset=b"\x80" * 5 + b"\0"), 1),
}
# Readers take offsets for what they say.
MISNUMBERED: Final = {
    "offsets that stay": (record(0) + record(0), 2),
    "offsets that jump": (record(0) + record(7), 2),
    "a first offset of 1": (record(1), 1),
    "a negative offset": (record(-1), 1),
    "an offset that needs more than 32 bits": (record(offset=b"\x80\x80\x80\x80\x10"), 1),
}
# Apache Kafka takes them for null; librdkafka, and so most readers, never gets past such a record.
NEGATIVE: Final = {
    "a key of length -5": (record(key=varint(-5)), 1),
    "a value of length -5": (record(value=varint(-5)), 1),
    "a header's value of length -5": (record(headers=varint(1) + field(b"h") + varint(-5)), 1),
}
# Unusual, and well-formed.
WELL_FORMED: Final = {
    "no key, no value": (record(key=field(None), value=field(None)), 1),
    "attributes of a record": (record(attributes=b"\xff"), 1),
    "a header without a value": (record(headers=varint(1) + field(b"h") + field(None)), 1),
    "a header's name that is no text": (record(headers=varint(1) + field(b"\xff") + field(b"v")), 1),
    "an integer with bytes to spare": (record(key=b"\x86\x80\x80\0key"), 1),
    "a time in ten bytes": (record(time=b"\x80" * 9 + b"\0"), 1),
    "many": (b"".join(record(number, time=varint(-number)) for number in range(300)), 300),
}
# Apache Kafka does not compare the length of a compressed record with its fields.
ACCEPTED_COMPRESSED_BY_KAFKA: Final = frozenset(
    {
        "a length of -1",
        "a length of 0",
        "a length that is too small",
        "a length that is too large, within the batch",
        "a length of 2^31-1",
    }
)


def _garbage(_: bytes) -> bytes:
    return b"garbage garbage garbage"


def _nothing(_: bytes) -> bytes:
    return b""


def _half(compressed: bytes) -> bytes:
    return compressed[: len(compressed) // 2]


DAMAGED: Final = (_garbage, _nothing, _half)
