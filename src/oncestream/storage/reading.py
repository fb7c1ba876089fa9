"""The read side of a log: fetches, look-ups, and what transactions let readers see.

What the disk refuses is a KafkaError: no OSError leaves this module.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncestream.storage import lookup
from oncestream.storage.durability import Durability
from oncestream.storage.files import FileSlice
from oncestream.storage.index import AbortedTransaction, TimestampOffset
from oncestream.storage.place import LoadedLog
from oncestream.storage.producers import OpenTransaction, ProducerInfo
from oncestream.wire.error_codes import ErrorCode, KafkaError


class LogReader:
    """What can be asked of a log. `Log` adds what changes it."""

    def __init__(self, loaded: LoadedLog, durability: Durability) -> None:
        self.start_offset = loaded.start_offset
        self.durability = durability
        self.leader_epoch = loaded.epochs.latest
        self.damage = loaded.damage
        self.failed: KafkaError | None = None
        if loaded.damage is not None:
            self.failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(loaded.damage))
        self._segments = loaded.segments
        self._producers = loaded.producers
        self._epochs = loaded.epochs

    @property
    def end_offset(self) -> int:
        return self.durability.end_offset

    @property
    def synced_offset(self) -> int:
        return self.durability.synced_offset

    @property
    def settled_offset(self) -> int:
        return self.durability.settled_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction. See `stable_offset` for what readers may see."""
        return next(iter(self._producers.open), None)

    @property
    def first_segment_offset(self) -> int:
        return self._segments[0].base_offset

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, whole_first_batch: bool = True
    ) -> list[FileSlice]:
        """Where in the files the batches from `offset` to below `upper_offset` lie.

        At most `max_bytes`, the last batch cut if need be; the first batch whole even if it is larger,
        or nothing if it may not be. Of a failed log, which will never have more, what is settled can be read; whoever
        has read that is told the failure.
        """
        self._check_range(offset)
        upper_offset = min(upper_offset, self.end_offset)
        if self.failed is not None:
            upper_offset = min(upper_offset, self.settled_offset)
            if offset >= upper_offset:
                raise self._failure()
        if offset >= upper_offset:
            return []
        try:
            return lookup.slices(
                self._segments, offset, max_bytes, upper_offset, whole_first_batch=whole_first_batch
            )
        except OSError as error:
            raise _unreadable(error) from error

    def batches(self, offset: int, upper_offset: int | None = None) -> Iterator[memoryview]:
        """Whole batches, one by one: for replay and tests."""
        self._check_range(offset)
        upper_offset = self.end_offset if upper_offset is None else upper_offset
        try:
            for _, batch in lookup.batches(self._segments, offset, upper_offset):
                yield batch
        except OSError as error:
            raise _unreadable(error) from error

    def stable_offset(self, high_watermark: int) -> int:
        """Up to where a read_committed reader may see: no open transaction, none whose end is not yet visible.

        Never below the start of the log: the first records of an open transaction may be deleted.
        """
        unstable = self._producers.first_unstable(high_watermark)
        return high_watermark if unstable is None else max(min(unstable, high_watermark), self.start_offset)

    def end_of(self, slices: list[FileSlice], first_offset: int, upper_offset: int) -> int:
        """No record of these slices of a `read` lies at or beyond it: as near as the index knows."""
        try:
            return lookup.end_of(self._segments, slices, first_offset, upper_offset)
        except OSError as error:
            raise _unreadable(error) from error

    def aborted(self, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        try:
            return lookup.aborted(self._segments, first_offset, upper_offset)
        except OSError as error:
            raise _unreadable(error) from error

    def offset_for_timestamp(self, timestamp_ms: int, upper_offset: int) -> TimestampOffset | None:
        """The first record at or after a time, below `upper_offset`."""
        try:
            return lookup.first_at_or_after(self._segments, timestamp_ms, self.start_offset, upper_offset)
        except OSError as error:
            raise _unreadable(error) from error

    def max_timestamp(self) -> TimestampOffset | None:
        try:
            return lookup.largest_timestamp(self._segments)
        except OSError as error:
            raise _unreadable(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset_of(epoch, self.end_offset)

    def producers(self) -> list[ProducerInfo]:
        return self._producers.describe()

    def end_offset_of(self, producer_id: int) -> int:
        """Just after the last record of this producer that is remembered; 0 if none is."""
        return self._producers.end_offset_of(producer_id)

    def open_transactions(self) -> list[OpenTransaction]:
        """Oldest first."""
        return self._producers.open_transactions()

    def _failure(self) -> KafkaError:
        """Made anew each time: an exception raised again and again would grow its traceback."""
        assert self.failed is not None
        return KafkaError(self.failed.code, self.failed.message)

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise self._out_of_range(offset)

    def _out_of_range(self, offset: int) -> KafkaError:
        message = f"offset {offset} is outside {self.start_offset} to {self.end_offset}"
        return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)


def _unreadable(error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"reading failed: {error}")
