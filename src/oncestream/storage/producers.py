"""Idempotent and transactional producers of one partition: what they wrote last, what they may write next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncestream.records.batch import SEQUENCE_MAX, TRANSACTIONAL, BatchHeader
from oncestream.records.control import EndMarker
from oncestream.storage.index import AbortedTransaction
from oncestream.wire.error_codes import ErrorCode, KafkaError

BATCHES_KEPT: Final = 5
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
_new: Final = tuple.__new__  # half the price of calling the class


class BatchTrace(NamedTuple):
    """What is remembered of a batch, to know it again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerInfo(NamedTuple):
    """One producer as DescribeProducers shows it; -1 where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    txn_start_offset: int


class OpenTransaction(NamedTuple):
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int
    coordinator_epoch: int


class Producer:
    """The last batches of one producer, newest last."""

    __slots__ = (
        "appended_ms",
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1  # as its client or the marker has it: for DescribeProducers
        self.appended_ms = 0  # by our clock: what expiry goes by
        self.txn_first_offset = NO_OFFSET
        self.batches: list[BatchTrace] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def move_to(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def remember(self, trace: BatchTrace) -> None:
        self.batches.append(trace)
        if len(self.batches) > BATCHES_KEPT:
            del self.batches[0]
        self.last_timestamp = trace.timestamp


class Producers:
    """All producers of a partition. `check` decides and changes nothing; `apply` follows a successful write."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        # First offset -> producer id. Transactions begin at rising offsets, so the first key is the oldest.
        self.open: dict[int, int] = {}
        # First offset -> marker's offset of ended transactions: unstable until the marker is visible.
        self.ended: dict[int, int] = {}

    def check(self, header: BatchHeader) -> BatchTrace | None:
        """The earlier write of this very batch, if it is a duplicate; raises if it may not be written."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None  # Its records may have been deleted or expired: any sequence is taken.
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch == producer.epoch:
            last = producer.last_sequence
            if sequence != ((last + 1) & SEQUENCE_MAX):
                duplicate = _duplicate(producer, header)
                if duplicate is None:
                    raise _out_of_order(header, f"the last sequence was {last}")
                return duplicate
        elif epoch < producer.epoch:
            raise _old_epoch(header.producer_id, epoch, producer.epoch)
        elif sequence != 0:
            raise _out_of_order(header, f"a new epoch starts at 0, the last epoch was {producer.epoch}")
        self._check_transaction(producer, header)
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """All that is asked of a coordinator's own writes, which carry no sequence."""
        producer = self.by_id.get(header.producer_id)
        if producer is not None:
            if header.producer_epoch < producer.epoch:
                raise _old_epoch(header.producer_id, header.producer_epoch, producer.epoch)
            self._check_transaction(producer, header)

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        if producer_epoch < producer.epoch:
            raise _old_epoch(producer_id, producer_epoch, producer.epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            message = f"coordinator epoch {coordinator_epoch} of producer {producer_id} is older than "
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED, message + str(producer.coordinator_epoch)
            )

    def apply(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A data batch was written (or found on disk) at `base_offset`."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_id, header.producer_epoch)
        elif header.producer_epoch != producer.epoch:
            producer.move_to(header.producer_epoch)
        delta = header.last_offset_delta
        trace = (header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        producer.remember(_new(BatchTrace, trace))
        producer.appended_ms = now_ms
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset == NO_OFFSET:
            producer.txn_first_offset = base_offset
            self.open[base_offset] = header.producer_id

    def apply_marker(
        self, header: BatchHeader, marker: EndMarker, offset: int, now_ms: int
    ) -> AbortedTransaction | None:
        """A transaction marker was written at `offset`; what goes to the transaction index, if it aborts."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_id, header.producer_epoch)
        first_offset = producer.txn_first_offset
        producer.move_to(header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.appended_ms = now_ms
        producer.txn_first_offset = NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        del self.open[first_offset]
        self.ended[first_offset] = offset
        if marker.commit:
            return None
        stable = next(iter(self.open), offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, offset, stable)

    def first_unstable(self, high_watermark: int) -> int | None:
        """First offset of the oldest transaction that is open, or whose marker is not below `high_watermark`."""
        if self.ended:
            self.forget_ended(high_watermark)
        oldest = next(iter(self.open), None)
        if not self.ended:
            return oldest
        return min(self.ended) if oldest is None else min(oldest, *self.ended)

    def forget_ended(self, high_watermark: int) -> None:
        """Transactions whose marker readers can see are settled."""
        for first_offset in [first for first, marker in self.ended.items() if marker < high_watermark]:
            del self.ended[first_offset]

    def load(self, producers: Iterable[Producer], now_ms: int) -> None:
        """Starts from a snapshot. It does not tell when a producer appended: each counts as if it just had."""
        self.by_id = {producer.producer_id: producer for producer in producers}
        for producer in self.by_id.values():
            producer.appended_ms = now_ms
        running = [p for p in self.by_id.values() if p.txn_first_offset != NO_OFFSET]
        running.sort(key=lambda producer: producer.txn_first_offset)
        self.open = {producer.txn_first_offset: producer.producer_id for producer in running}
        self.ended = {}

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forgets producers that appended nothing for `after_ms`; never one with an open transaction.

        Apache Kafka goes by the time that the client wrote into its last batch: a producer of old records is
        forgotten at once there, and its retried batch stored twice.
        """
        for producer in list(self.by_id.values()):
            if producer.txn_first_offset == NO_OFFSET and now_ms - producer.appended_ms >= after_ms:
                del self.by_id[producer.producer_id]

    def describe(self) -> list[ProducerInfo]:
        return [
            ProducerInfo(
                p.producer_id,
                p.epoch,
                p.last_sequence,
                p.last_timestamp,
                p.coordinator_epoch,
                p.txn_first_offset,
            )
            for p in self.by_id.values()
        ]

    def end_offset_of(self, producer_id: int) -> int:
        producer = self.by_id.get(producer_id)
        return producer.batches[-1].last_offset + 1 if producer is not None and producer.batches else 0

    def open_transactions(self) -> list[OpenTransaction]:
        running = [(first, self.by_id[producer_id]) for first, producer_id in self.open.items()]
        return [
            OpenTransaction(p.producer_id, p.epoch, first, p.last_timestamp, p.coordinator_epoch)
            for first, p in running
        ]

    def _check_transaction(self, producer: Producer, header: BatchHeader) -> None:
        if producer.txn_first_offset != NO_OFFSET and not header.is_transactional:
            message = f"producer {header.producer_id} writes outside the transaction it has open"
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)


def _duplicate(producer: Producer, header: BatchHeader) -> BatchTrace | None:
    first, last = header.base_sequence, header.last_sequence
    for trace in producer.batches:
        if trace.last_sequence == last and trace.first_sequence == first:
            return trace
    return None


def _out_of_order(header: BatchHeader, why: str) -> KafkaError:
    message = f"producer {header.producer_id} epoch {header.producer_epoch} sent sequence {header.base_sequence}: {why}"
    return KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


def _old_epoch(producer_id: int, epoch: int, newest: int) -> KafkaError:
    message = f"epoch {epoch} of producer {producer_id} is older than the last seen, {newest}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
