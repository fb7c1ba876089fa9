"""The log of a coordinator: a compacted internal topic whose records, replayed in order, are its state.

Differs from Apache Kafka: all partitions of the topic live here, so one coordinator serves them all.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from oncestream.broker.partition import Partition, SyncCallback
from oncestream.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    NO_PRODUCER,
    TRANSACTIONAL,
    parse_header,
)
from oncestream.records.compression import decompress
from oncestream.records.control import marker_of
from oncestream.records.records import Record, build_batch
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}

_HEADER: Final = struct.Struct(">q13xh20xq6xi")  # base offset, attributes, producer id and count of a batch
_VARINT_BYTE_MAX: Final = 0x7F


class StateRecord(NamedTuple):
    """A change of a coordinator's state; no value deletes the key."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """In whose transaction records are written."""

    id: int
    epoch: int


class Transaction(NamedTuple):
    """The open transaction of a producer in one partition of the log: each has a marker of its own."""

    partition: int
    producer_id: int


Replay = Callable[[StateRecord, int, Transaction | None], None]


class Replayer(Protocol):
    """What takes the records of a state log, at start-up and after every append alike."""

    def replay(self, record: StateRecord, offset: int, transaction: Transaction | None) -> None: ...
    def end_transaction(self, transaction: Transaction, commit: bool) -> None: ...


class StateLog:
    """One internal topic. It is made when the first record is written."""

    def __init__(self, node: Node, topic: str, partitions: int) -> None:
        self._node = node
        self._topic = topic
        self._partition_count = partitions

    def partition_of(self, name: str) -> int:
        """The partition of a group or transactional id, by Java's hash of it as Apache Kafka has it."""
        found = self._node.topics.get(self._topic)
        count = self._partition_count if found is None else len(found.partitions)
        return (java_hash(name) & 0x7FFFFFFF) % count

    def append(
        self, index: int, records: Sequence[StateRecord], now_ms: int, producer: Producer | None = None
    ) -> Appended:
        """Writes the records as one batch; durable when `when_durable` calls back."""
        partition = self._partition(index)
        batch = build_batch(
            [Record(i, now_ms, record.key, record.value) for i, record in enumerate(records)],
            producer_id=NO_PRODUCER if producer is None else producer.id,
            producer_epoch=-1 if producer is None else producer.epoch,
            transactional=producer is not None,
        )
        appended = partition.log.append(memoryview(batch), internal=True)
        partition.appended()
        return appended

    def when_durable(self, index: int, callback: SyncCallback) -> None:
        """Calls back once everything appended so far is durable; at once if it is."""
        if self._topic in self._node.topics:
            partition = self._partition(index)
            partition.when_synced(partition.log.end_offset, callback)
        else:
            callback(None)

    def replay(self, replayer: Replayer) -> int:
        """Hands over everything the log holds; answers how many records there were."""
        found = self._node.topics.get(self._topic)
        collecting = gc.isenabled()
        gc.disable()  # a million small objects that stay would be looked at again and again
        try:
            return sum(_replay(partition, replayer) for partition in found.partitions) if found else 0
        finally:
            if collecting:
                gc.enable()

    def _partition(self, index: int) -> Partition:
        topic = self._node.topics.get(self._topic)
        if topic is None:
            topic = self._node.create_topic(self._topic, self._partition_count, TOPIC_CONFIGS)
        return topic.partitions[index]


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number: over UTF-16 units."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(encoded), 2):
        value = (31 * value + (encoded[i] << 8 | encoded[i + 1])) & 0xFFFFFFFF
    return value


def _replay(partition: Partition, replayer: Replayer) -> int:
    log, replay = partition.log, replayer.replay
    total = 0
    for batch in log.batches(log.start_offset):
        base_offset, attributes, producer_id, count = _HEADER.unpack_from(batch)
        if attributes & CONTROL:
            marker = marker_of(batch, parse_header(batch))
            if marker is not None:
                replayer.end_transaction(Transaction(partition.index, producer_id), marker.commit)
            continue
        transaction = Transaction(partition.index, producer_id) if attributes & TRANSACTIONAL else None
        payload = batch[HEADER_SIZE:]
        if attributes & CODEC_MASK:
            payload = memoryview(decompress(parse_header(batch).codec, payload))
        try:
            _replay_records(bytes(payload), count, base_offset, transaction, replay)
        except IndexError:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {base_offset} is cut off") from None
        total += count
    return total


def _replay_records(
    data: bytes, count: int, base_offset: int, transaction: Transaction | None, replay: Replay
) -> None:
    """One loop, and varints of one byte read in place: recovery is as fast as this is."""
    new = tuple.__new__  # half the price of calling the class
    position = 0
    for _ in range(count):
        size = data[position]
        position += 1
        if size > _VARINT_BYTE_MAX:
            size, position = _long_varint(data, position)
        end = position + (size >> 1)
        position += 1  # attributes
        while data[position] > _VARINT_BYTE_MAX:  # timestamp
            position += 1
        delta = data[position + 1]
        position += 2
        if delta > _VARINT_BYTE_MAX:
            delta, position = _long_varint(data, position)
        size = data[position]
        position += 1
        if size > _VARINT_BYTE_MAX:
            size, position = _long_varint(data, position)
        key = data[position : position + (size >> 1)]
        position += size >> 1
        size = data[position]
        position += 1
        if size > _VARINT_BYTE_MAX:
            size, position = _long_varint(data, position)
        value = None if size & 1 else data[position : position + (size >> 1)]
        replay(new(StateRecord, (key, value)), base_offset + (delta >> 1), transaction)
        position = end


def _long_varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint of more than one byte, the first of which lies before `position`; zigzag is left to the caller."""
    value, shift = data[position - 1] & _VARINT_BYTE_MAX, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & _VARINT_BYTE_MAX) << shift
        if byte <= _VARINT_BYTE_MAX:
            return value, position
        shift += 7
