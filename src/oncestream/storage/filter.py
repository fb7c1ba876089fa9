"""What compaction keeps of a batch, as Apache Kafka's cleaner decides it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from oncestream.records.batch import BatchHeader, parse_header
from oncestream.records.compression import Codec
from oncestream.records.control import marker_of
from oncestream.records.records import Record, rebuild_batch, records_of
from oncestream.storage.index import AbortedTransaction


class LastRecord(NamedTuple):
    """A live producer's last data; None if its last write was a transaction marker."""

    last_data_offset: int | None
    producer_epoch: int


class TransactionTrail:
    """Follows transactions through the log, batch by batch, to know the aborted ones and the emptied ones."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = [(transaction.first_offset, transaction) for transaction in aborted]
        heapq.heapify(self._ahead)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_data: set[int] = set()

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        self._seen_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def on_marker(
        self,
        header: BatchHeader,
        batch: memoryview,
        keep_abort: Callable[[AbortedTransaction], None] | None = None,
    ) -> bool:
        """Whether the marker is of no use any more, because nothing of its transaction is left."""
        self._advance(header.last_offset)
        marker = marker_of(batch, header)
        if marker is None:
            return header.count == 0
        had_data = header.producer_id in self._seen_data
        self._seen_data.discard(header.producer_id)
        if marker.commit:
            return not had_data
        transaction = self._aborted.pop(header.producer_id, None)
        if transaction is None or not had_data:
            return True
        if keep_abort is not None:
            keep_abort(transaction)
        return False

    def _advance(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, transaction = heapq.heappop(self._ahead)
            self._aborted.setdefault(transaction.producer_id, transaction)


class BatchFilter:
    """Decides batch by batch, in the order of the log."""

    def __init__(
        self,
        is_latest: Callable[[bytes, int], bool],
        mapped_to: int,
        trail: TransactionTrail,
        last_records: dict[int, LastRecord],
        upper_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._is_latest = is_latest
        self._mapped_to = mapped_to
        self._trail = trail
        self._last_records = last_records
        self._upper_offset = upper_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def apply(
        self, header: BatchHeader, batch: memoryview, keep_abort: Callable[[AbortedTransaction], None]
    ) -> tuple[BatchHeader, memoryview] | None:
        """The batch as it stays, or None if nothing of it does."""
        horizon = header.delete_horizon_ms
        if header.is_control:
            useless = self._trail.on_marker(header, batch, keep_abort)
            discard = useless and horizon is not None and horizon <= self._now_ms
        else:
            useless = discard = self._trail.on_data(header)
        keep_empty = self._is_last_of_producer(header) or header.next_offset == self._upper_offset
        if discard and not keep_empty:
            return None
        records = [] if discard else list(records_of(batch, header))
        kept = [record for record in records if header.is_control or self._keeps(record, horizon)]
        if not kept:
            return self._emptied(header) if keep_empty else None
        # A marker that ends nothing any more ages like a tombstone.
        ages = any(record.value is None for record in kept) or (useless and header.is_control)
        starts_aging = ages and horizon is None
        if len(kept) == header.count and not starts_aging:
            return header, batch
        horizon = self._now_ms + self._delete_retention_ms if starts_aging else horizon
        return _parsed(rebuild_batch(header, kept, delete_horizon_ms=horizon))

    def _keeps(self, record: Record, horizon: int | None) -> bool:
        if record.offset > self._mapped_to:
            return True
        if record.key is None or not self._is_latest(record.key, record.offset):
            return False
        return record.value is not None or horizon is None or self._now_ms < horizon

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _emptied(self, header: BatchHeader) -> tuple[BatchHeader, memoryview]:
        return _parsed(rebuild_batch(header, [], delete_horizon_ms=None, codec=Codec.NONE))


def _parsed(batch: bytearray) -> tuple[BatchHeader, memoryview]:
    return parse_header(batch), memoryview(batch)
