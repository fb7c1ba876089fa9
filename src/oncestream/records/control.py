"""Control batches: the markers that end a transaction in a partition."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from oncestream.records.batch import BatchHeader
from oncestream.records.compression import Buffer
from oncestream.records.records import Record, build_batch, records_of

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1


class EndMarker(NamedTuple):
    commit: bool
    coordinator_epoch: int


def build_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    log_append_time: bool = False,
) -> bytearray:
    """The control batch that ends a transaction: one record, no sequence."""
    key = _KEY.pack(0, _COMMIT if marker.commit else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        log_append_time=log_append_time,
    )


def marker_of(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """What a control batch says about its transaction; None if it ends none, or compaction emptied it."""
    for record in records_of(batch, header):
        if record.key is None or record.value is None:
            return None
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (_ABORT, _COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value)
        return EndMarker(kind == _COMMIT, coordinator_epoch)
    return None
