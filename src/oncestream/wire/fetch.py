"""The Fetch response, versions 4-18, as chunks: record data stay where they are until they are sent.

Leaves out what a single broker never says: preferred read replica, snapshot id, endpoints of other nodes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from oncestream.wire.codec import uvarint
from oncestream.wire.schema import NO_UUID

T = TypeVar("T")

NO_OFFSET: Final = -1

_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_NO_REPLICA: Final = -1

_FRAME_LENGTH: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_STRING_LENGTH: Final = struct.Struct(">h")
_HEAD: Final = struct.Struct(">iii")  # frame length, correlation id, throttle time
_HEAD_SESSION: Final = struct.Struct(">iiihi")  # and error code, session id
_HEAD_FLEXIBLE: Final = struct.Struct(">iixihi")
_PARTITION: Final = struct.Struct(">ihqq")  # index, error code, high watermark, last stable offset
_PARTITION_START: Final = struct.Struct(">ihqqq")  # and log start offset
_ABORTED: Final = struct.Struct(">qq")  # producer id, first offset
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqx")
_REPLICA_LENGTH: Final = struct.Struct(">ii")  # preferred read replica, size of the records
_REPLICA: Final = struct.Struct(">i")
_DIVERGING_EPOCH: Final = struct.Struct(">BBiqx")  # tag 0, size, epoch, end offset
_CURRENT_LEADER: Final = struct.Struct(">BBiix")  # tag 1, size, leader id, leader epoch


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted in the fetched range."""

    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    """Where the log of the client and ours part."""

    epoch: int
    end_offset: int


class CurrentLeader(NamedTuple):
    """Who leads the partition now, told with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""

    leader_id: int
    leader_epoch: int


class FetchedPartition(NamedTuple, Generic[T]):
    """What one partition answers. `records` are bytes, or anything of `records_size` bytes to be sent."""

    partition: int
    error_code: int = 0
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    aborted: Sequence[AbortedTransaction] | None = None
    records: bytes | T = b""
    records_size: int = 0
    diverging_epoch: DivergingEpoch | None = None
    current_leader: CurrentLeader | None = None


class FetchedTopic(NamedTuple, Generic[T]):
    """The partitions of one topic; its id is used from version 13 on, its name before."""

    name: str
    partitions: Sequence[FetchedPartition[T]]
    topic_id: bytes = NO_UUID


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchedTopic[T]],
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
) -> list[bytes | bytearray | T]:
    """The whole frame, its length and header included, as byte pieces and the records between them."""
    flexible = version >= _FLEXIBLE_FROM
    if flexible:
        head = _HEAD_FLEXIBLE.pack(0, correlation_id, throttle_ms, error_code, session_id)
    elif version >= 7:
        head = _HEAD_SESSION.pack(0, correlation_id, throttle_ms, error_code, session_id)
    else:
        head = _HEAD.pack(0, correlation_id, throttle_ms)
    out = first = bytearray(head)
    chunks: list[bytes | bytearray | T] = [first]
    size = 0
    out += _array_length(len(topics), flexible)
    for topic in topics:
        _write_topic(out, topic, version, flexible)
        for partition in topic.partitions:
            _write_partition(out, partition, version, flexible)
            records = partition.records
            if isinstance(records, bytes):
                out += records
            else:
                size += len(out) + partition.records_size
                chunks.append(records)
                out = bytearray()
                chunks.append(out)
            if flexible:
                _write_tags(out, partition)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    size += len(out)
    if not out:
        chunks.pop()
    _FRAME_LENGTH.pack_into(first, 0, size - _FRAME_LENGTH.size)
    return chunks


def _write_topic(out: bytearray, topic: FetchedTopic[T], version: int, flexible: bool) -> None:
    if version >= _TOPIC_IDS_FROM:
        out += topic.topic_id
    else:
        name = topic.name.encode()
        out += uvarint(len(name) + 1) if flexible else _STRING_LENGTH.pack(len(name))
        out += name
    out += _array_length(len(topic.partitions), flexible)


def _write_partition(out: bytearray, partition: FetchedPartition[T], version: int, flexible: bool) -> None:
    """Everything before the records, their length included."""
    records = partition.records
    length = len(records) if isinstance(records, bytes) else partition.records_size
    if version >= 5:
        out += _PARTITION_START.pack(*partition[:5])
    else:
        out += _PARTITION.pack(*partition[:4])
    aborted = partition.aborted
    out += _array_length(-1 if aborted is None else len(aborted), flexible)
    if aborted:
        entry = _ABORTED_FLEXIBLE if flexible else _ABORTED
        for transaction in aborted:
            out += entry.pack(*transaction)
    if flexible:
        out += _REPLICA.pack(_NO_REPLICA)
        out += uvarint(length + 1)
    elif version >= 11:
        out += _REPLICA_LENGTH.pack(_NO_REPLICA, length)
    else:
        out += _LENGTH.pack(length)


def _write_tags(out: bytearray, partition: FetchedPartition[T]) -> None:
    diverging, leader = partition.diverging_epoch, partition.current_leader
    out.append((diverging is not None) + (leader is not None))
    if diverging is not None:
        out += _DIVERGING_EPOCH.pack(0, _DIVERGING_EPOCH.size - 2, *diverging)
    if leader is not None:
        out += _CURRENT_LEADER.pack(1, _CURRENT_LEADER.size - 2, *leader)


def _array_length(length: int, flexible: bool) -> bytes:
    """-1 stands for null."""
    return uvarint(length + 1) if flexible else _LENGTH.pack(length)
