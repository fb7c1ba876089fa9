"""Batches that cannot be read: which one of a fetch it is, and where the log goes on behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.fetching import fetch_answers, fetch_request
from oncestream.client.leaders import ask_leaders
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import PartitionDamaged
from oncestream.records.batch import HEADER_SIZE, BatchHeader, is_valid_batch, parse_header
from oncestream.records.compression import DECOMPRESSED_BYTES_MAX, Codec
from oncestream.records.framing import RECORD_BYTES_MIN
from oncestream.records.records import records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.schema import Buffer

OnDamage = Callable[[PartitionDamaged], object]

FETCH_BYTES: Final = 1  # of each partition: an answer has its first batch whole

# What decoding says of records that are not what their batch promises, or that inflate beyond all bounds.
DAMAGE: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE})


def damage_at(
    cluster: Cluster, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionDamaged]:
    """Those partitions of which the batch at the given offset cannot be read."""
    build = partial(
        fetch_request,
        partition_bytes_max=FETCH_BYTES,
        bytes_max=FETCH_BYTES,
        bytes_min=0,
        wait_ms_max=0,
        read_committed=False,
    )
    found = {}
    for (
        at,
        position,
    ) in positions.items():  # one by one: an answer has one batch that is larger than asked for
        data = ask_leaders(cluster, {at: position}, build, FetchResponse, fetch_answers)[at]
        damaged = first_damage(at, data.records or b"")
        if damaged is not None and damaged[0] == 0:
            found[at] = damaged[1]
    return found


def first_damage(at: TopicPartition, records: Buffer) -> tuple[int, PartitionDamaged] | None:
    """The first whole batch of a fetch answer that cannot be read: where it lies in the answer, and what is wrong."""
    view, position = memoryview(records), 0
    while position + HEADER_SIZE <= len(view):
        header = parse_header(view, position)
        batch = view[position : position + header.size_bytes]
        if len(batch) < max(header.size_bytes, HEADER_SIZE):
            return None
        try:
            check_readable(header, batch)
        except KafkaError as error:
            return position, damage_of(at, header, error.message)
        position += header.size_bytes
    return None


def check_readable(header: BatchHeader, batch: memoryview) -> None:
    """CORRUPT_MESSAGE or MESSAGE_TOO_LARGE where the records cannot be read."""
    if not is_valid_batch(batch, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "its checksum does not match")
    check_count(header)
    for _ in records_of(batch, header):
        pass


def check_count(header: BatchHeader) -> None:
    """CORRUPT_MESSAGE where the header alone shows that its number of records is false."""
    size_bytes = header.size_bytes - HEADER_SIZE if header.codec is Codec.NONE else DECOMPRESSED_BYTES_MAX
    if not 0 <= header.count * RECORD_BYTES_MIN <= size_bytes:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"it cannot hold {header.count} records")


def damage_of(at: TopicPartition, header: BatchHeader, reason: str) -> PartitionDamaged:
    return PartitionDamaged(
        topic=at.topic,
        partition=at.partition,
        offset=header.base_offset,
        next_offset=header.next_offset,
        reason=reason,
    )
