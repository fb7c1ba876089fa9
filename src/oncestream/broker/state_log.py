"""The log of a coordinator: a compacted internal topic whose records, replayed in order, are its state.

Differs from Apache Kafka: all partitions of the topic live here, so one coordinator serves them all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from oncestream.broker.partition import Partition, SyncCallback
from oncestream.records.batch import HEADER_SIZE, NO_PRODUCER, parse_header
from oncestream.records.compression import decompress
from oncestream.records.control import marker_of
from oncestream.records.records import Record, build_batch
from oncestream.storage.log import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}


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
    log = partition.log
    count = 0
    for batch in log.batches(log.start_offset):
        header = parse_header(batch)
        if header.is_control:
            marker = marker_of(batch, header)
            if marker is not None:
                replayer.end_transaction(Transaction(partition.index, header.producer_id), marker.commit)
            continue
        transaction = Transaction(partition.index, header.producer_id) if header.is_transactional else None
        payload = bytes(decompress(header.codec, batch[HEADER_SIZE : header.size_bytes]))
        _replay_batch(payload, header.count, header.base_offset, transaction, replayer.replay)
        count += header.count
    return count


def _replay_batch(
    data: bytes,
    count: int,
    base_offset: int,
    transaction: Transaction | None,
    replay: Callable[[StateRecord, int, Transaction | None], None],
) -> None:
    """Decodes in one loop, without an object per field: recovery is as fast as this is."""
    position = 0
    try:
        for _ in range(count):
            length, position = _varint(data, position)
            end = position + length
            _, position = _varint(data, position + 1)
            offset_delta, position = _varint(data, position)
            size, position = _varint(data, position)
            key = data[position : position + size]
            position += len(key)
            size, position = _varint(data, position)
            value = data[position : position + size] if size >= 0 else None
            position = end
            replay(StateRecord(key, value), base_offset + offset_delta, transaction)
    except IndexError:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {base_offset} is cut off") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
