"""The records of a batch must fill it exactly: one walk over their lengths, on the way of every batch of a client.

The records are not built. Every byte is accounted for, so that whoever reads the batch later finds `count` whole
records with the offsets that its header promises. Compiled, the walk takes some 10 ns a record: its integers are
machine words there (`i64`; mypyc alone looks at the annotations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from mypy_extensions import i64

HEADERS_MAX: Final = 1_000_000  # of all records of a batch: a few kilobytes may inflate to many millions
RECORD_BYTES_MIN: Final = 7  # length, attributes, timestamp, offset, key, value, headers: a byte each

_NONE: Final = 1  # the length -1 of a field that is null; librdkafka never gets past any other negative one
_ONE_BYTE_MAX: Final = 0x7F
_INT_BYTES: Final = 5
_INT_LAST_BYTE_MAX: Final = 0x0F  # what is left of 32 bits
_LONG_BYTES: Final = 10
_LONG_LAST_BYTE_MAX: Final = 0x01
_INT63_MASK: Final = 0x7FFF_FFFF_FFFF_FFFF


class Deltas(NamedTuple):
    """The smallest and the largest distance of a record's timestamp from the batch's base timestamp."""

    smallest: int
    largest: int


def check_framing(data: bytes, start: int, count: int) -> Deltas:
    """Refuses, as INVALID_RECORD, what is not `count` records with offsets 0, 1, 2... from `start` to the end."""
    if count * RECORD_BYTES_MIN > len(data) - start:
        raise _invalid(f"{count} records do not fit into {len(data) - start} bytes")
    try:
        smallest, largest = _walk(data, start, count)
    except IndexError:
        raise _invalid(f"the last of {count} records ends behind the batch") from None
    return Deltas(smallest, largest)


def _walk(data: bytes, start: i64, count: i64) -> tuple[i64, i64]:  # noqa: PLR0912, PLR0915  # a call a field costs more
    """Varints of one byte, and most of two, are read in place. A position past the end raises IndexError.

    It only grows: whatever field ends behind its record is found at the record's end.
    """
    size: i64 = len(data)
    position: i64 = start
    smallest: i64 = _INT63_MASK
    largest: i64 = -_INT63_MASK - 1
    previous: i64 = 0  # the timestamp of the record before, as it is written
    headers: i64 = 0
    number: i64 = 0
    while number < count:
        byte: i64 = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            more: i64 = data[position]
            if more > _ONE_BYTE_MAX:
                byte, position = _varint(data, position)
            else:
                byte += (more << 7) - 128
                position += 1
        end: i64 = position + (byte >> 1)
        if byte & 1 or end > size:
            raise _wrong(number, "its length does not fit into the batch")
        byte = data[position + 1]  # behind the attributes, which have no meaning yet
        position += 2
        if byte > _ONE_BYTE_MAX:
            byte, position = _varlong(data, position)
        if byte != previous or not number:
            previous = byte
            byte = ((byte >> 1) & _INT63_MASK) ^ -(byte & 1)
            if byte > largest:  # noqa: PLR1730  # a call
                largest = byte
            if byte < smallest:  # noqa: PLR1730
                smallest = byte
        byte = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            more = data[position]
            if more > _ONE_BYTE_MAX:
                byte, position = _varint(data, position)
            else:
                byte += (more << 7) - 128
                position += 1
        if byte != number + number:
            raise _wrong(number, "its offset does not follow the one before")
        byte = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            byte, position = _varint(data, position)
        if not byte & 1:
            position += byte >> 1
        elif byte != _NONE:
            raise _wrong(number, "the length of its key is negative")
        byte = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            more = data[position]
            if more > _ONE_BYTE_MAX:
                byte, position = _varint(data, position)
            else:
                byte += (more << 7) - 128
                position += 1
        if not byte & 1:
            position += byte >> 1
        elif byte != _NONE:
            raise _wrong(number, "the length of its value is negative")
        byte = data[position]
        position += 1
        if byte:
            headers, position = _skip_headers(data, position, end, byte, number, headers)
        if position != end:
            raise _wrong(number, "its length is not that of its fields")
        number += 1
    if position != size:
        raise _invalid(f"{size - position} bytes follow the last of {count} records")
    return smallest, largest


def _skip_headers(
    data: bytes, position: i64, end: i64, byte: i64, number: i64, before: i64
) -> tuple[i64, i64]:
    """How many headers there are with those before, and the position after them. `byte`: the first of their number."""
    if byte > _ONE_BYTE_MAX:
        byte, position = _varint(data, position)
    left: i64 = byte >> 1
    if byte & 1 or left > end - position:
        raise _wrong(number, "its headers are more than fit into the record")
    total: i64 = before + left
    if total > HEADERS_MAX:
        raise _wrong(number, f"with its headers the batch has more than {HEADERS_MAX}")
    while left > 0:
        byte = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            byte, position = _varint(data, position)
        position += byte >> 1
        if byte & 1 or position >= end:
            raise _wrong(number, "the name of a header ends behind the record")
        byte = data[position]
        position += 1
        if byte > _ONE_BYTE_MAX:
            byte, position = _varint(data, position)
        if not byte & 1:
            position += byte >> 1
            if position > end:
                raise _wrong(number, "the value of a header ends behind the record")
        elif byte != _NONE:
            raise _wrong(number, "the length of a header's value is negative")
        left -= 1
    return total, position


def _varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """Of 32 bits, its first byte before `position`; zigzag is left to the caller. With the position after it."""
    value: i64 = data[position - 1] & _ONE_BYTE_MAX
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        value |= (byte & _ONE_BYTE_MAX) << shift
        if byte <= _ONE_BYTE_MAX:
            if shift == 7 * (_INT_BYTES - 1) and byte > _INT_LAST_BYTE_MAX:
                break
            return value, position
        shift += 7
        if shift == 7 * _INT_BYTES:
            break
    raise _invalid(f"the integer before byte {position} of the records is longer than 32 bits")


def _varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """As `_varint`, of 64 bits."""
    value: i64 = data[position - 1] & _ONE_BYTE_MAX
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        value |= (byte & _ONE_BYTE_MAX) << shift
        if byte <= _ONE_BYTE_MAX:
            if shift == 7 * (_LONG_BYTES - 1) and byte > _LONG_LAST_BYTE_MAX:
                break
            return value, position
        shift += 7
        if shift == 7 * _LONG_BYTES:
            break
    raise _invalid(f"the integer before byte {position} of the records is longer than 64 bits")


def _wrong(number: i64, message: str) -> KafkaError:
    return _invalid(f"record {number}: {message}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
