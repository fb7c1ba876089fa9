from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from oncestream.records.batch import check_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.records.control import EndMarker, build_marker, marker_of
from oncestream.records.records import Header, Record, build_batch, rebuild_batch, recompress, records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError

headers = st.builds(Header, st.text(max_size=10), st.none() | st.binary(max_size=20))
contents = st.tuples(
    st.integers(0, 2**42),
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=300),
    st.lists(headers, max_size=3).map(tuple),
)


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    rows = draw(st.lists(contents, min_size=1, max_size=20))
    return [Record(offset, *row) for offset, row in enumerate(rows)]


def read_by_kafka_python(batch: bytes) -> list[Record]:
    theirs: Any = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    return [
        Record(r.offset, r.timestamp, r.key, r.value, tuple(Header(name, value) for name, value in r.headers))
        for r in theirs
    ]


@settings(max_examples=150)
@given(some_records(), st.sampled_from(Codec))
def test_built_batches_read_back_equal_here_and_in_kafka_python(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    header = check_batch(memoryview(batch))
    assert header.codec == codec
    assert list(records_of(batch)) == records
    assert header.max_timestamp == max(record.timestamp for record in records)
    if codec in (Codec.NONE, Codec.GZIP):
        assert read_by_kafka_python(bytes(batch)) == records


@settings(max_examples=60)
@given(some_records())
def test_uncompressed_batches_are_byte_identical_with_kafka_python(records: list[Record]) -> None:
    theirs: Any = DefaultRecordBatchBuilder(
        2, 0, is_transactional=True, producer_id=11, producer_epoch=3, base_sequence=5, batch_size=10**9
    )
    for record in records:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    ours = build_batch(
        records, producer_id=11, producer_epoch=3, base_sequence=5, transactional=True, leader_epoch=-1
    )
    expected = bytearray(theirs.build())
    expected[12:16] = ours[12:16]  # the leader epoch is the broker's to write
    assert ours == expected


@settings(max_examples=40)
@given(some_records(), st.sampled_from(Codec), st.sampled_from(Codec))
def test_recompressing_changes_the_codec_and_nothing_else(
    records: list[Record], before: Codec, after: Codec
) -> None:
    batch = build_batch(records, codec=before, producer_id=4, producer_epoch=1, base_sequence=9)
    again = recompress(batch, after)
    header = check_batch(memoryview(again))
    assert header.codec == after
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    assert list(records_of(again)) == records


@settings(max_examples=200)
@given(some_records(), st.sampled_from(Codec), st.data())
def test_damaged_records_are_refused_or_read_and_nothing_else(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = build_batch(records, codec=codec)
    position = data.draw(st.integers(57, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    outcome = None
    try:
        for _ in zip(range(1000), records_of(batch), strict=False):
            pass
    except KafkaError as error:
        outcome = error.code
    assert outcome in (None, ErrorCode.CORRUPT_MESSAGE)


def test_a_rebuilt_batch_keeps_offsets_sequences_and_producer() -> None:
    records = [Record(100 + number, 50 + number, b"k%d" % number, b"v") for number in range(5)]
    batch = build_batch(records, producer_id=4, producer_epoch=2, base_sequence=30, codec=Codec.LZ4)
    original = parse_header(batch)
    again = rebuild_batch(original, records[1:3], delete_horizon_ms=9_999)
    header = check_batch(memoryview(again))
    assert (header.base_offset, header.last_offset) == (100, 104)
    assert (header.base_sequence, header.last_sequence) == (30, 34)
    assert header.delete_horizon_ms == 9_999
    assert list(records_of(again)) == records[1:3]


def test_an_emptied_batch_keeps_its_place() -> None:
    batch = build_batch(
        [Record(7, 50, b"k", b"v"), Record(8, 51, b"k", b"v")], producer_id=4, producer_epoch=0
    )
    header = check_batch(memoryview(rebuild_batch(parse_header(batch), [], delete_horizon_ms=None)))
    assert (header.base_offset, header.last_offset, header.count) == (7, 8, 0)
    assert header.max_timestamp == 51


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_tells_outcome_and_coordinator_epoch(commit: bool) -> None:
    batch = build_marker(EndMarker(commit, 12), producer_id=5, producer_epoch=3, timestamp_ms=77)
    header = check_batch(memoryview(batch))
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert marker_of(batch, header) == EndMarker(commit, 12)
