"""Searches over the segments of a log: by offset, by timestamp, for aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from oncestream.records.batch import BatchHeader
from oncestream.records.records import Record, records_of
from oncestream.storage.files import FileSlice
from oncestream.storage.index import AbortedTransaction, TimestampOffset
from oncestream.storage.segment import Segment
from oncestream.wire.error_codes import KafkaError


def segment_number(segments: Sequence[Segment], offset: int) -> int:
    """The segment that `offset` belongs to: the last whose base offset is not above it."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def slices(
    segments: Sequence[Segment], offset: int, max_bytes: int, upper_offset: int, *, whole_first_batch: bool
) -> list[FileSlice]:
    """Where the batches from `offset` up to `upper_offset` lie, at most `max_bytes` of them."""
    number = segment_number(segments, offset)
    located = segments[number].locate(offset)
    while located is None:
        number += 1
        if number == len(segments):
            return []
        located = segments[number].locate(offset)
    if located.size_bytes > max_bytes:
        if not whole_first_batch:
            return []
        max_bytes = located.size_bytes
    position = located.position
    found: list[FileSlice] = []
    while max_bytes > 0 and number < len(segments) and segments[number].base_offset < upper_offset:
        segment = segments[number]
        size = min(max_bytes, _end_position(segments, number, upper_offset) - position)
        if size > 0:
            found.append(FileSlice(segment.file(), position, size))
            max_bytes -= size
        position = 0
        number += 1
    return found


def end_of(
    segments: Sequence[Segment], slices: Sequence[FileSlice], first_offset: int, upper_offset: int
) -> int:
    """An offset that no batch in slices read from `first_offset` up to `upper_offset` reaches."""
    last = slices[-1]
    number = segment_number(segments, first_offset)
    while segments[number].path != last.file.path:
        number += 1
    end = segments[number].offset_after(last.position + last.size)
    if end is None:
        end = segments[number + 1].base_offset if number + 1 < len(segments) else upper_offset
    return min(end, upper_offset)


def batches(
    segments: Sequence[Segment], offset: int, upper_offset: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Whole batches from the one that holds `offset` on, below `upper_offset`."""
    for segment in segments[segment_number(segments, offset) :]:
        for header, batch in segment.batches(segment.index_position(offset)):
            if header.base_offset >= upper_offset:
                return
            if header.last_offset >= offset:
                yield header, batch


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, upper_offset: int
) -> TimestampOffset | None:
    """The first record, by offset, whose timestamp is at least `timestamp_ms`."""
    for segment in segments:
        if segment.largest().timestamp < timestamp_ms:
            continue
        position = max(segment.position_by_time(timestamp_ms), segment.index_position(start_offset))
        for position, header in segment.headers(position):  # noqa: B020 the loop goes on from there
            if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
                continue
            for record in _records(segment.batch_at(position, header.size_bytes), header):
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    if record.offset >= upper_offset:
                        return None
                    return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def largest_timestamp(segments: Sequence[Segment]) -> TimestampOffset | None:
    """The first record that has the largest timestamp of all."""
    newest = max(segments, key=lambda segment: segment.largest().timestamp)
    timestamp, last_offset, _ = newest.largest()
    if timestamp < 0:
        return None
    for position, header in newest.headers(newest.index_position(last_offset)):
        if header.max_timestamp == timestamp:
            for record in _records(newest.batch_at(position, header.size_bytes), header):
                if record.timestamp == timestamp:
                    return TimestampOffset(timestamp, record.offset, header.leader_epoch)
    return None


def _records(batch: memoryview, header: BatchHeader) -> list[Record]:
    """A damaged batch, as older brokers took it, counts as one record: who reads from there on is told."""
    try:
        return list(records_of(batch, header))
    except KafkaError:
        return [Record(header.base_offset, header.max_timestamp, None, None)]


def aborted(segments: Sequence[Segment], first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions with records in the range."""
    found = []
    for segment in segments[segment_number(segments, first_offset) :]:
        for transaction in segment.aborted() if segment.aborts.count else ():
            if transaction.last_offset >= first_offset and transaction.first_offset < upper_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_offset:
                return found
    return found


def _end_position(segments: Sequence[Segment], number: int, upper_offset: int) -> int:
    """Where batches below `upper_offset` end in this segment."""
    segment = segments[number]
    last = number + 1 == len(segments)
    if upper_offset >= (segment.next_offset if last else segments[number + 1].base_offset):
        return segment.size_bytes
    located = segment.locate(upper_offset)
    return segment.size_bytes if located is None else located.position
