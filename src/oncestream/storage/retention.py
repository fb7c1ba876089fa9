"""Which of a log's oldest segments may go: by start offset, size and age."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oncestream.storage.config import LogConfig
from oncestream.storage.segment import Segment

STAY_MS: Final = 300_000
"""Records that were old when they were written stay at least so long: Kafka looks every five minutes."""


def segments_to_delete(segments: Sequence[Segment], start_offset: int, config: LogConfig, now_ms: int) -> int:
    """How many segments, from the oldest on, retention gives up. It may be all of them, if not empty."""
    count = segments_below(segments, start_offset)
    if config.cleanup_delete:
        count = _beyond_size(segments, config.retention_bytes, count)
        count = _beyond_age(segments, config.retention_ms, now_ms, count)
    return count


def segments_below(segments: Sequence[Segment], start_offset: int) -> int:
    """How many segments, from the oldest on, lie wholly below the log's start."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= start_offset:
        count += 1
    return count


def _beyond_size(segments: Sequence[Segment], retention_bytes: int, count: int) -> int:
    if retention_bytes < 0:
        return count
    excess = sum(segment.size_bytes for segment in segments[count:]) - retention_bytes
    while count < len(segments) and segments[count].size_bytes and excess >= segments[count].size_bytes:
        excess -= segments[count].size_bytes
        count += 1
    return count


def _beyond_age(segments: Sequence[Segment], retention_ms: int, now_ms: int, count: int) -> int:
    if retention_ms < 0:
        return count
    while count < len(segments) and _is_expired(segments[count], retention_ms, now_ms):
        if count + 1 == len(segments) and not segments[count].size_bytes:
            break
        count += 1
    return count


def _is_expired(segment: Segment, retention_ms: int, now_ms: int) -> bool:
    if now_ms - segment.largest_timestamp() <= retention_ms:
        return False
    written_ago_ms = now_ms - segment.written_ms()
    return not 0 <= written_ago_ms <= min(retention_ms, STAY_MS)  # below 0: the clock was set, or is a test's
