"""The Produce that clients send all day, read and answered without the general codec.

Plain is a request, version 3-13, with no transactional id, one topic, and no tagged fields. What is not plain,
or is damaged, is left to the general codec, which knows what to say about it. Texts are not checked to be UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from oncestream.wire.codec import DecodeError, read_uvarint, uvarint

_VERSION_MIN: Final = 3
_START_OFFSET_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13
_VERSION_MAX: Final = 13
_ONE_BYTE_MAX: Final = 0x7F
_ID_BYTES: Final = 16

_new: Final = tuple.__new__  # half the price of calling the class
_HEADER: Final = struct.Struct(">hhih")  # api key, version, correlation id, size of the client id
# transactional id (null), acks, timeout, topics (1), size of the name
_BODY: Final = struct.Struct(">hhiih")
_BODY_FLEXIBLE: Final = struct.Struct(">BBhiBB")  # behind the header's tags
_BODY_IDS: Final = struct.Struct(">BBhiB")
_COUNT: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ii")  # index, size of the records
_PARTITION_FLEXIBLE: Final = struct.Struct(">iB")

_ANSWER_HEAD: Final = struct.Struct(">iiih")  # frame size, correlation id, topics, size of the name
_ANSWER_HEAD_FLEXIBLE: Final = struct.Struct(">iixB")
_FRAME_SIZE: Final = struct.Struct(">i")
# index, error, base offset, append time; then log start offset; then no record errors, no message
_ANSWER: Final = struct.Struct(">ihqq")
_ANSWER_START: Final = struct.Struct(">ihqqq")
_ANSWER_ERRORS: Final = struct.Struct(">ihqqqih")
_ANSWER_FLEXIBLE: Final = struct.Struct(">ihqqqBBx")


class PlainProduce(NamedTuple):
    """One topic, by its name, or from version 13 on by its id; the records are views of the frame."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    topic: bytes
    partitions: list[tuple[int, memoryview]]


class PlainAnswer(NamedTuple):
    """What became of one partition's records, if nothing went wrong."""

    partition: int
    base_offset: int
    append_time_ms: int
    start_offset: int


def by_id(version: int) -> bool:
    """Whether topics are named by their ids."""
    return version >= _TOPIC_IDS_FROM


def read_plain(frame: memoryview) -> PlainProduce | None:
    """The request in `frame`, a Produce with its header; None if it is not plain."""
    try:
        _, version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
        position = _HEADER.size + client_id_size if client_id_size > 0 else _HEADER.size
        if _FLEXIBLE_FROM <= version <= _VERSION_MAX:
            return _read_flexible(frame, version, correlation_id, position)
        if _VERSION_MIN <= version < _FLEXIBLE_FROM:
            return _read(frame, version, correlation_id, position)
    except (struct.error, IndexError, DecodeError):
        pass
    return None


def write_plain(request: PlainProduce, answers: Sequence[PlainAnswer]) -> bytearray:
    """The whole frame of the answer."""
    version = request.version
    if version >= _FLEXIBLE_FROM:
        return _write_flexible(request, answers)
    topic = request.topic
    out = bytearray(_ANSWER_HEAD.size)
    out += topic
    out += _COUNT.pack(len(answers))
    for index, base_offset, append_time_ms, start_offset in answers:
        if version >= _RECORD_ERRORS_FROM:
            out += _ANSWER_ERRORS.pack(index, 0, base_offset, append_time_ms, start_offset, 0, -1)
        elif version >= _START_OFFSET_FROM:
            out += _ANSWER_START.pack(index, 0, base_offset, append_time_ms, start_offset)
        else:
            out += _ANSWER.pack(index, 0, base_offset, append_time_ms)
    out += b"\0\0\0\0"  # not throttled
    _ANSWER_HEAD.pack_into(out, 0, len(out) - 4, request.correlation_id, 1, len(topic))
    return out


def _write_flexible(request: PlainProduce, answers: Sequence[PlainAnswer]) -> bytearray:
    out = bytearray(_ANSWER_HEAD_FLEXIBLE.size)
    if request.version < _TOPIC_IDS_FROM:
        out += uvarint(len(request.topic) + 1)
    out += request.topic
    out += uvarint(len(answers) + 1)
    for index, base_offset, append_time_ms, start_offset in answers:
        out += _ANSWER_FLEXIBLE.pack(index, 0, base_offset, append_time_ms, start_offset, 1, 0)
    out += b"\0\0\0\0\0\0"  # tags of the topic, not throttled, tags
    _ANSWER_HEAD_FLEXIBLE.pack_into(out, 0, len(out) - 4, request.correlation_id, 2)
    return out


def _read(frame: memoryview, version: int, correlation_id: int, position: int) -> PlainProduce | None:
    no_id, acks, timeout_ms, topics, size = _BODY.unpack_from(frame, position)
    start = position + _BODY.size
    stop = start + size
    if no_id != -1 or topics != 1 or size < 0 or not (partitions := _partitions(frame, stop)):
        return None
    topic = bytes(frame[start:stop])
    return _new(PlainProduce, (version, correlation_id, acks, timeout_ms, topic, partitions))


def _read_flexible(
    frame: memoryview, version: int, correlation_id: int, position: int
) -> PlainProduce | None:
    if version < _TOPIC_IDS_FROM:
        tags, no_id, acks, timeout_ms, topics, size = _BODY_FLEXIBLE.unpack_from(frame, position)
        start = position + _BODY_FLEXIBLE.size
        if not 0 < size <= _ONE_BYTE_MAX:
            return None
        stop = start + size - 1
    else:
        tags, no_id, acks, timeout_ms, topics = _BODY_IDS.unpack_from(frame, position)
        start = position + _BODY_IDS.size
        stop = start + _ID_BYTES
    if tags or no_id or topics != 2 or not (partitions := _partitions_flexible(frame, stop)):
        return None
    topic = bytes(frame[start:stop])
    return _new(PlainProduce, (version, correlation_id, acks, timeout_ms, topic, partitions))


def _partitions(frame: memoryview, position: int) -> list[tuple[int, memoryview]] | None:
    (count,) = _COUNT.unpack_from(frame, position)
    position += _COUNT.size
    found = []
    for _ in range(count):
        index, size = _PARTITION.unpack_from(frame, position)
        start = position + _PARTITION.size
        position = start + size
        if size < 0 or position > len(frame):
            return None
        found.append((index, frame[start:position]))
    return found if position == len(frame) else None


def _partitions_flexible(frame: memoryview, position: int) -> list[tuple[int, memoryview]] | None:
    count = frame[position]
    if count > _ONE_BYTE_MAX:
        return None
    position += 1
    found = []
    for _ in range(count - 1):
        index, size = _PARTITION_FLEXIBLE.unpack_from(frame, position)
        position += _PARTITION_FLEXIBLE.size
        if size > _ONE_BYTE_MAX:
            size, position = read_uvarint(frame, position - 1)
        start = position
        position = start + size - 1
        if size == 0 or frame[position]:  # its tags
            return None
        found.append((index, frame[start:position]))
        position += 1
    return found if position + 2 == len(frame) and not frame[position] and not frame[position + 1] else None
