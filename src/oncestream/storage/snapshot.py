"""Producer snapshots: Apache Kafka's file, and after its entries a section of our own.

Kafka keeps only the last batch of a producer; the trailing section, under the same checksum and
ignored by Kafka's reader, keeps the earlier ones, so that duplicates of all five are known after a restart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from oncestream.records.crc import crc32c
from oncestream.storage.disk import Disk
from oncestream.storage.producers import NO_OFFSET, NO_SEQUENCE, BatchTrace, Producer

VERSION: Final = 1
SECTION_MAGIC: Final = b"once1"
_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC: Final = struct.Struct(">I")
_CRC_POSITION: Final = 2
_CRC_START: Final = 6
_EARLIER: Final = struct.Struct(">qi")
_TRACE: Final = struct.Struct(">iqiq")


def write_snapshot(path: Path, producers: Iterable[Producer], disk: Disk) -> None:
    """Not synced: a torn snapshot fails its checksum, and an older one with a longer replay takes its place."""
    known = list(producers)
    content = bytearray(_HEADER.pack(VERSION, 0, len(known)))
    for producer in known:
        last = producer.batches[-1] if producer.batches else BatchTrace(NO_SEQUENCE, NO_OFFSET, 0, -1)
        content += _ENTRY.pack(
            producer.producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.txn_first_offset,
        )
    content += SECTION_MAGIC
    for producer in known:
        content += _EARLIER.pack(producer.producer_id, len(producer.batches))
        for trace in producer.batches:
            content += _TRACE.pack(*trace)
    _CRC.pack_into(content, _CRC_POSITION, crc32c(memoryview(content)[_CRC_START:]))
    disk.replace_file(path, bytes(content), durable=False)


def read_snapshot(path: Path) -> list[Producer] | None:
    """The producers of a snapshot; None if it is damaged."""
    content = path.read_bytes()
    try:
        version, crc, count = _HEADER.unpack_from(content)
        if version != VERSION or crc32c(memoryview(content)[_CRC_START:]) != crc:
            return None
        position = _HEADER.size
        producers = {}
        for _ in range(count):
            producer = _producer(_ENTRY.unpack_from(content, position))
            producers[producer.producer_id] = producer
            position += _ENTRY.size
        _read_section(content, position, producers)
    except struct.error:
        return None
    return list(producers.values())


def _producer(fields: tuple[int, ...]) -> Producer:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    producer = Producer(producer_id, epoch)
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.txn_first_offset = txn_first_offset
    if offset >= 0:
        producer.batches.append(BatchTrace(sequence, offset, delta, timestamp))
    return producer


def _read_section(content: bytes, position: int, producers: dict[int, Producer]) -> None:
    if content[position : position + len(SECTION_MAGIC)] != SECTION_MAGIC:
        return
    position += len(SECTION_MAGIC)
    while position < len(content):
        producer_id, count = _EARLIER.unpack_from(content, position)
        position += _EARLIER.size
        end = position + count * _TRACE.size
        producers[producer_id].batches = [BatchTrace(*f) for f in _TRACE.iter_unpack(content[position:end])]
        position = end
