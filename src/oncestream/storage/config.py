"""What a topic's settings mean to its logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from oncestream.records.compression import Codec
from oncestream.storage.index import OFFSET_ENTRY, TIME_ENTRY

INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 24 * 60 * 60 * 1000


class RollLimits(NamedTuple):
    """What makes a log begin a new segment."""

    size_bytes: int
    waited_ms: int
    offset_entries: int
    time_entries: int


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one log, with Apache Kafka's defaults. -1 means no limit for retention."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    compression: Codec | None = None  # None: as the producer sent it
    log_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 60 * 60 * 1000
    producer_id_expiration_ms: int = DAY_MS

    @property
    def roll_ms(self) -> int:
        """A compacted log rolls early enough that its oldest record meets the maximum lag."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.cleanup_compact else self.segment_ms

    @property
    def roll_limits(self) -> RollLimits:
        """One entry of the time index is kept free for the close of the segment."""
        return RollLimits(
            self.segment_bytes,
            self.roll_ms,
            self.segment_index_bytes // OFFSET_ENTRY.size,
            self.segment_index_bytes // TIME_ENTRY.size - 1,
        )

    @property
    def opens_batches(self) -> bool:
        """Whether an append must look into, or change, the batch a client sent."""
        return (
            self.log_append_time
            or self.cleanup_compact
            or self.compression is not None
            or self.timestamp_before_max_ms != INT64_MAX
        )
