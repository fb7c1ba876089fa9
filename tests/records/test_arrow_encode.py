from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from oncestream.records.arrow_decode import decode_batches
from oncestream.records.arrow_encode import EncodedBatch, encode_batches, partition_of_keys, record_sizes
from oncestream.records.arrow_headers import HEADERS_TYPE
from oncestream.records.batch import HEADER_SIZE, SEQUENCE_MAX, check_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.records.records import Header, Record, build_batch, records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.records.arrow_kit import contents, moment, rows_of, shown

NOW = 1_700_000_000_123
Content = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]


def rows(drawn: list[Content]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([key for _, key, _, _ in drawn], pa.binary()),
            "value": pa.array([value for _, _, value, _ in drawn], pa.binary()),
            "timestamp": pa.array([time for time, _, _, _ in drawn], pa.int64()),
            "headers": pa.array(
                [[{"key": one.key, "value": one.value} for one in each] or None for *_, each in drawn],
                HEADERS_TYPE,
            ),
        }
    )


def values(*content: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(content, pa.binary())})


def read(batches: list[EncodedBatch]) -> list[Record]:
    return [record for batch in batches for record in records_of(batch.data)]


def encode(batch: pa.RecordBatch, **settings: Any) -> list[EncodedBatch]:
    return encode_batches(batch, **{"size_bytes_max": 1 << 20, "now_ms": NOW} | settings)


@settings(max_examples=150)
@given(st.lists(contents, max_size=90), st.sampled_from(Codec), st.integers(0, 5))
def test_a_batch_has_the_bytes_of_the_slow_path(drawn: list[Content], codec: Codec, skipped: int) -> None:
    encoded = encode(
        rows(drawn).slice(skipped),
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
    )
    drawn = drawn[skipped:]
    assert len(encoded) == bool(drawn)
    if drawn:
        expected = build_batch(
            [Record(number, *content) for number, content in enumerate(drawn)],
            codec=codec,
            producer_id=7,
            producer_epoch=3,
            base_sequence=11,
            transactional=True,
        )
        assert encoded[0].data == expected
        assert encoded[0].rows == len(drawn)


@settings(max_examples=100)
@given(st.lists(contents, min_size=1, max_size=60), st.integers(1, 2000))
def test_batches_keep_to_their_size_and_hold_every_record_in_order(
    drawn: list[Content], size_bytes_max: int
) -> None:
    encoded = encode(
        rows(drawn), size_bytes_max=size_bytes_max, producer_id=1, producer_epoch=0, base_sequence=0
    )
    for batch in encoded:
        check_batch(memoryview(batch.data))
        assert len(batch.data) <= size_bytes_max or batch.rows == 1
    assert [record[1:] for record in read(encoded)] == drawn
    first_rows = np.cumsum([0] + [batch.rows for batch in encoded[:-1]]).tolist()
    assert [parse_header(batch.data).base_sequence for batch in encoded] == first_rows


@settings(max_examples=60)
@given(st.lists(contents, min_size=1, max_size=40))
def test_a_records_size_is_what_it_takes_alone_in_a_batch(drawn: list[Content]) -> None:
    alone = encode(rows(drawn), size_bytes_max=1)
    assert [batch.rows for batch in alone] == [1] * len(drawn)
    sizes = record_sizes(rows(drawn)).tolist()
    assert sizes == [len(batch.data) - HEADER_SIZE for batch in alone]


@settings(max_examples=60)
@given(st.lists(contents, min_size=1, max_size=40), st.sampled_from(Codec))
def test_what_was_encoded_is_decoded(drawn: list[Content], codec: Codec) -> None:
    (batch,) = encode(rows(drawn), codec=codec)
    decoded = decode_batches(batch.data, start_offset=0, headers=True)
    assert rows_of(decoded.batch) == shown([Record(at, *content) for at, content in enumerate(drawn)])


def test_many_rows_make_batches_of_8192() -> None:
    count = 100_000
    encoded = encode(values(*[b"%d" % number for number in range(count)]))
    assert [batch.rows for batch in encoded] == [8192] * 12 + [count - 12 * 8192]
    assert [record.value for record in read(encoded)] == [b"%d" % number for number in range(count)]


def test_no_rows_make_no_batch() -> None:
    assert encode(values()) == []
    assert record_sizes(values()).tolist() == []


def test_columns_of_only_null_or_nothing_are_taken() -> None:
    nothing = pa.nulls(2)
    batch = pa.record_batch({"key": nothing, "value": nothing, "timestamp": nothing, "headers": nothing})
    assert read(encode(batch)) == [Record(0, NOW, None, None), Record(1, NOW, None, None)]
    empty_lists = pa.record_batch({"value": nothing, "headers": pa.array([[], []], HEADERS_TYPE)})
    assert [record.headers for record in read(encode(empty_lists))] == [(), ()]
    assert partition_of_keys(pa.array([], pa.binary()), 3).tolist() == []
    assert partition_of_keys(nothing, 3).tolist() == [-1, -1]


def test_timestamps_further_apart_than_a_long_keep_batches_to_their_size() -> None:
    times = [-(2**63), 2**63 - 1] * 20
    batch = values(*[b""] * 40).append_column("timestamp", pa.array(times, pa.int64()))
    encoded = encode(batch, size_bytes_max=200)
    assert all(len(one.data) <= 200 for one in encoded)
    decoded = [decode_batches(one.data, start_offset=0, headers=True).batch for one in encoded]
    assert sum(one.num_rows for one in decoded) == 40


def test_sequences_wrap_and_stay_unset_without_a_producer() -> None:
    three = values(b"a", b"b", b"c")
    wrapped = encode(three, size_bytes_max=1, producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX)
    assert [parse_header(batch.data).base_sequence for batch in wrapped] == [SEQUENCE_MAX, 0, 1]
    assert {parse_header(batch.data).base_sequence for batch in encode(three, size_bytes_max=1)} == {-1}


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view(), pa.binary(3)]
)
def test_every_arrow_type_of_bytes_and_text_is_taken(kind: pa.DataType) -> None:
    column = pa.array([b"abc", None, b"xyz"], pa.binary()).cast(kind)
    read_back = read(encode(pa.record_batch({"key": column, "value": column})))
    assert [(record.key, record.value) for record in read_back] == [
        (b"abc", b"abc"),
        (None, None),
        (b"xyz", b"xyz"),
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_become_milliseconds_and_null_is_now(unit: str) -> None:
    times = pa.array([moment(5000), None, moment(-3000)], pa.timestamp(unit, "UTC"))
    batch = pa.record_batch({"value": pa.array([b""] * 3, pa.binary()), "timestamp": times})
    assert [record.timestamp for record in read(encode(batch))] == [5000, NOW, -3000]


def test_a_part_of_a_millisecond_is_cut_off_towards_the_past() -> None:
    times = pa.array([moment(5) + timedelta(microseconds=999), moment(-5)], pa.timestamp("us", "UTC"))
    times = pa.concat_arrays([times, pa.array([-1], pa.timestamp("us", "UTC"))])
    batch = pa.record_batch({"value": pa.array([b""] * 3, pa.binary()), "timestamp": times})
    assert [record.timestamp for record in read(encode(batch))] == [5, -5, -1]


def test_without_a_timestamp_column_records_are_of_now() -> None:
    assert {record.timestamp for record in read(encode(values(b"a", None)))} == {NOW}


def test_headers_may_be_a_map() -> None:
    kind = pa.map_(pa.string(), pa.binary())
    maps = pa.array([[("a", b"1"), ("b", None)], None, []], kind)
    batch = pa.record_batch({"value": pa.array([b""] * 3, pa.binary()), "headers": maps})
    assert [record.headers for record in read(encode(batch))] == [(("a", b"1"), ("b", None)), (), ()]


def test_a_header_without_a_key_is_refused() -> None:
    lists = pa.array([[{"key": None, "value": b"1"}]], HEADERS_TYPE)
    with pytest.raises(KafkaError) as caught:
        encode(pa.record_batch({"value": pa.array([b""], pa.binary()), "headers": lists}))
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_other_columns_are_left_out() -> None:
    batch = values(b"a").append_column("topic", pa.array(["t"]))
    assert [record.value for record in read(encode(batch))] == [b"a"]


@settings(max_examples=100)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=70)), max_size=80), st.integers(1, 50))
def test_keys_get_the_partition_the_java_producer_gives(keys: list[bytes | None], partitions: int) -> None:
    found = partition_of_keys(pa.array([b"skipped", *keys], pa.binary()).slice(1), partitions)
    expected = [-1 if key is None else (kafka_murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    assert found.tolist() == expected
    assert found.dtype == np.int32


def test_a_few_huge_keys_among_many_small_ones_are_hashed_alike() -> None:
    keys = [b"k" * size for size in [*range(100), 5000, 70_000]]
    expected = [(kafka_murmur2(key) & 0x7FFFFFFF) % 13 for key in keys]
    assert partition_of_keys(pa.array(keys, pa.binary()), 13).tolist() == expected
