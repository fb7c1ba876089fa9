"""Record batch v2: its 61-byte header, its checksum, and the two fields a broker writes."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from oncestream.records.compression import Buffer, Codec
from oncestream.records.crc import crc32c
from oncestream.wire.error_codes import ErrorCode, KafkaError

HEADER_SIZE: Final = 61
LENGTH_PREFIX_BYTES: Final = 12  # base offset and length itself: what `length` does not count
MAGIC: Final = 2
CRC_START: Final = 21  # the checksum covers everything from the attributes on
SEQUENCE_MAX: Final = 2**31 - 1
NO_PRODUCER: Final = -1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_LEADER_EPOCH_POSITION: Final = 12
_CRC_POSITION: Final = 17
_MAX_TIMESTAMP_POSITION: Final = 35
MAGIC_POSITION: Final = 16
_new: Final = tuple.__new__  # two thirds of what `_make` costs


class BatchHeader(NamedTuple):
    """The header as it lies on disk. `length` counts the bytes after itself."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0; -1 where the producer is not idempotent."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def codec(self) -> Codec:
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError as error:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"unknown compression in {self.attributes}"
            ) from error

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones of this batch may go: compaction keeps it where the base timestamp was."""
        return self.base_timestamp if self.has_delete_horizon else None


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the caller knows that 61 bytes are there."""
    return _new(BatchHeader, _HEADER.unpack_from(buffer, position))


def check_batch(view: memoryview) -> BatchHeader:
    """The header of the one whole, undamaged batch that `view` must be.

    Refused as Kafka does: a wrong magic and anything but one batch are INVALID_RECORD, a length
    or checksum that does not hold is CORRUPT_MESSAGE.
    """
    if len(view) < HEADER_SIZE:
        raise _not_a_batch(view)
    header = _new(BatchHeader, _HEADER.unpack_from(view))
    size_bytes = header.length + LENGTH_PREFIX_BYTES
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"record batch has magic {header.magic}, only 2 is taken")
    if not HEADER_SIZE <= size_bytes <= len(view):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"record batch says {size_bytes} bytes, {len(view)} bytes came"
        )
    if crc32c(view[CRC_START:size_bytes]) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"record batch does not match its checksum {header.crc:#x}"
        )
    if size_bytes != len(view):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "one partition of a request holds exactly one record batch"
        )
    return header


def is_valid_batch(view: Buffer, header: BatchHeader) -> bool:
    """Whether `view`, of just the size its header says, is an undamaged batch."""
    return header.magic == MAGIC and crc32c(memoryview(view)[CRC_START:]) == header.crc


def stamp(view: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes the two fields that lie outside the checksum."""
    _OFFSET.pack_into(view, 0, base_offset)
    _LENGTH.pack_into(view, _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_timestamp_type(view: memoryview, *, log_append_time: bool, max_timestamp: int) -> None:
    """Writes the timestamp type and the largest timestamp, and the checksum anew."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, CRC_START)
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(view, CRC_START, attributes)
    _OFFSET.pack_into(view, _MAX_TIMESTAMP_POSITION, max_timestamp)
    _CRC.pack_into(view, _CRC_POSITION, crc32c(view[CRC_START:]))


def join_batch(header: BatchHeader, records: Buffer) -> bytearray:
    """A batch of `header` and the bytes of its records; length and checksum are computed here."""
    batch = bytearray(HEADER_SIZE)
    batch += records
    length = len(batch) - LENGTH_PREFIX_BYTES
    _HEADER.pack_into(batch, 0, *header._replace(length=length, magic=MAGIC, crc=0))
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def _not_a_batch(view: memoryview) -> KafkaError:
    if len(view) > MAGIC_POSITION and view[MAGIC_POSITION] != MAGIC:
        message = f"record batch has magic {view[MAGIC_POSITION]}, only 2 is taken"
        return KafkaError(ErrorCode.INVALID_RECORD, message)
    if len(view) == 0:
        return KafkaError(ErrorCode.INVALID_RECORD, "a partition of a request must hold one record batch")
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes are no record batch")
