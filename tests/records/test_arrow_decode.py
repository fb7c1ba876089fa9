from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.records.arrow_decode import SCHEMA, SCHEMA_WITH_HEADERS, decode_batches
from oncestream.records.batch import HEADER_SIZE, join_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.records.control import EndMarker, build_marker
from oncestream.records.records import Header, Record, build_batch, records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.records.arrow_kit import contents, rows_of, shown


class Log(NamedTuple):
    """A fetch answer and what a reader must see of it."""

    data: bytes
    committed: list[Record]
    visible: list[Record]
    aborted: list[tuple[int, int]]
    end: int


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of several producers with gaps, empty ones, markers, and open or ended transactions."""
    offset = draw(st.sampled_from([0, 5, 2**40]))
    data = bytearray()
    written: list[tuple[int | None, Record]] = []  # (index of its transaction, record)
    transactions: list[tuple[int, int]] = []
    current: dict[int, int] = {}
    outcomes: dict[int, bool] = {}
    for _ in range(draw(st.integers(0, 8))):
        producer = draw(st.sampled_from([1, 2, 3]))
        offset += draw(st.sampled_from([0, 0, 1, 7]))
        action = draw(st.sampled_from(["plain", "transactional", "transactional", "end", "empty"]))
        if action == "end":
            if producer not in current:
                continue
            commit = draw(st.booleans())
            outcomes[current.pop(producer)] = commit
            data += build_marker(
                EndMarker(commit, 0),
                producer_id=producer,
                producer_epoch=0,
                timestamp_ms=1,
                base_offset=offset,
            )
            offset += 1
            continue
        count = 0 if action == "empty" else draw(st.sampled_from([1, 2, 3, 70]))
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 4]), min_size=count, max_size=count))
        drawn = draw(st.lists(contents, min_size=1, max_size=3))
        records = []
        position = offset
        for number, step in enumerate(steps):
            records.append(Record(position, *drawn[number % len(drawn)]))
            position += step
        last = max(position - 1, offset) + draw(st.sampled_from([0, 2]))
        transactional = action == "transactional"
        batch = build_batch(
            records,
            codec=draw(st.sampled_from(Codec)),
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
            log_append_time=draw(st.booleans()),
            base_offset=offset,
            last_offset=last,
        )
        data += batch
        transaction = None
        if transactional:
            if producer not in current:
                current[producer] = len(transactions)
                transactions.append((producer, offset))
            transaction = current[producer]
        written += [(transaction, record) for record in (records_of(batch) if count else ())]
        offset = last + 1
    return Log(
        bytes(data),
        # An open transaction never shows in a read_committed answer, but what is not aborted is not hidden.
        [record for transaction, record in written if transaction is None or outcomes.get(transaction, True)],
        [record for _, record in written],
        [transactions[number] for number, commit in outcomes.items() if not commit],
        offset,
    )


@settings(max_examples=150)
@given(logs(), st.booleans())
def test_every_visible_record_comes_out_as_the_slow_path_reads_it(log: Log, headers: bool) -> None:
    decoded = decode_batches(log.data, start_offset=0, aborted=log.aborted, headers=headers)
    assert rows_of(decoded.batch) == shown(log.committed, with_headers=headers)
    decoded.batch.validate(full=True)
    assert decoded.batch.schema == (SCHEMA_WITH_HEADERS if headers else SCHEMA)
    last_batch_end = decoded.next_offset
    assert last_batch_end <= log.end
    assert all(record.offset < last_batch_end for record in log.visible)


@settings(max_examples=60)
@given(logs())
def test_read_uncommitted_shows_aborted_records_too(log: Log) -> None:
    decoded = decode_batches(
        log.data, start_offset=0, aborted=log.aborted, read_committed=False, headers=True
    )
    assert rows_of(decoded.batch) == shown(log.visible)


@settings(max_examples=80)
@given(logs(), st.data())
def test_start_and_end_cut_inside_batches(log: Log, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, log.end + 2))
    end = data.draw(st.integers(0, log.end + 2))
    decoded = decode_batches(log.data, start_offset=start, end_offset=end, aborted=log.aborted, headers=True)
    assert rows_of(decoded.batch) == shown([one for one in log.committed if start <= one.offset < end])
    assert decoded.next_offset >= start


@settings(max_examples=80)
@given(logs(), st.data())
def test_a_cut_off_last_batch_is_left_for_the_next_fetch(log: Log, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(log.data)))
    decoded = decode_batches(log.data[:size], start_offset=0, aborted=log.aborted, headers=True)
    expected = [record for record in log.committed if record.offset < decoded.next_offset]
    assert rows_of(decoded.batch) == shown(expected)
    rest = decode_batches(log.data, start_offset=decoded.next_offset, aborted=log.aborted, headers=True)
    assert rows_of(decoded.batch) + rows_of(rest.batch) == shown(log.committed)


def test_markers_and_aborted_data_move_the_next_offset() -> None:
    batch = build_batch(
        [Record(10, 1, None, b"gone")], producer_id=4, producer_epoch=0, base_sequence=0, transactional=True
    )
    marker = build_marker(
        EndMarker(False, 0), producer_id=4, producer_epoch=0, timestamp_ms=1, base_offset=11
    )
    decoded = decode_batches(batch + marker, start_offset=10, aborted=[(4, 10)])
    assert (decoded.batch.num_rows, decoded.next_offset) == (0, 12)


def test_a_producer_is_seen_again_after_its_abort_marker() -> None:
    def written(offset: int, value: bytes) -> bytearray:
        return build_batch(
            [Record(offset, 1, None, value)],
            producer_id=4,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def ended(offset: int, commit: bool) -> bytearray:
        return build_marker(
            EndMarker(commit, 0), producer_id=4, producer_epoch=0, timestamp_ms=1, base_offset=offset
        )

    data = written(0, b"a") + ended(1, False) + written(2, b"b") + ended(3, True) + written(4, b"c")
    decoded = decode_batches(data + ended(5, False), start_offset=0, aborted=[(4, 0), (4, 4)])
    assert decoded.batch.column("value").to_pylist() == [b"b"]
    assert decoded.next_offset == 6


def test_an_empty_buffer_moves_nothing() -> None:
    decoded = decode_batches(b"", start_offset=42)
    assert (decoded.batch.num_rows, decoded.batch.schema, decoded.next_offset) == (0, SCHEMA, 42)


def test_the_timestamp_type_tells_log_append_time() -> None:
    created = build_batch([Record(0, 5, None, b"")])
    appended = build_batch([Record(1, 5, None, b""), Record(2, 9, None, b"")], log_append_time=True)
    batch = decode_batches(created + appended, start_offset=0).batch
    assert batch.column("timestampType").to_pylist() == [0, 1, 1]
    assert [row[1] for row in rows_of(batch)] == [5, 9, 9]


def test_a_record_without_headers_has_null_headers() -> None:
    batch = build_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b", (Header("h", None),))])
    column = decode_batches(batch, start_offset=0, headers=True).batch.column("headers")
    assert column.to_pylist() == [None, [{"key": "h", "value": None}]]


def test_timestamps_beyond_microseconds_become_the_nearest_that_fit() -> None:
    batch = build_batch([Record(0, 2**62, None, b""), Record(1, -(2**62), None, b"")])
    assert [row[1] for row in rows_of(decode_batches(batch, start_offset=0).batch)] == [
        (2**63 - 1) // 1000,
        -((2**63 - 1) // 1000),
    ]


@pytest.mark.parametrize(
    "sizes", [[100] * 9000, [100] * 500 + [90, 2000] * 300 + [1] * 900, [3, 70, 200] * 700]
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_runs_of_one_size_and_changes_between_them_are_found(
    sizes: list[int], kind: type[bytes] | type[bytearray] | type[memoryview]
) -> None:
    records = [Record(number, 1000 + number, None, b"v" * size) for number, size in enumerate(sizes)]
    decoded = decode_batches(kind(build_batch(records)), start_offset=0)
    assert rows_of(decoded.batch) == shown(records)


@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_byte_is_corrupt(codec: Codec) -> None:
    batch = build_batch([Record(0, 1, b"k", b"v" * 20)], codec=codec)
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(KafkaError) as caught:
            decode_batches(damaged, start_offset=0)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@settings(max_examples=300)
@given(st.lists(contents, min_size=1, max_size=60), st.data())
def test_records_that_do_not_hold_together_are_corrupt_or_read_as_the_slow_path_does(
    drawn: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]], data: st.DataObject
) -> None:
    batch = build_batch([Record(number, *content) for number, content in enumerate(drawn)])
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    batch = join_batch(parse_header(batch), batch[HEADER_SIZE:])
    try:
        expected = shown(list(records_of(batch)))
    except KafkaError:
        with suppress(KafkaError):  # the fast path takes a few things more
            decode_batches(batch, start_offset=-(2**63), headers=True)
    else:
        assert rows_of(decode_batches(batch, start_offset=-(2**63), headers=True).batch) == expected


def test_the_checksum_may_be_left_unchecked() -> None:
    batch = build_batch([Record(0, 1, None, b"v" * 20)])
    batch[-2] ^= 1
    decoded = decode_batches(batch, start_offset=0, check_crc=False)
    assert decoded.batch.column("value").to_pylist() == [b"v" * 19 + b"w"]


def test_more_records_than_the_bytes_hold_is_corrupt() -> None:
    batch = build_batch([Record(0, 1, None, b"v" * 20)])
    lying = join_batch(parse_header(batch)._replace(count=2**31 - 1), batch[HEADER_SIZE:])
    with pytest.raises(KafkaError, match="do not fit"):
        decode_batches(lying, start_offset=0)


def test_older_message_formats_are_refused() -> None:
    batch = build_batch([Record(0, 1, None, b"v")])
    batch[16] = 1
    with pytest.raises(KafkaError) as caught:
        decode_batches(batch, start_offset=0)
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_header_keys_that_are_no_text_are_read_with_replacement_signs() -> None:
    batch = build_batch([Record(0, 1, None, b"", (Header("abc", b"1"),))])
    payload = bytes(batch[HEADER_SIZE:]).replace(b"abc", b"a\xffc")
    column = decode_batches(
        join_batch(parse_header(batch), payload), start_offset=0, headers=True
    ).batch.column("headers")
    assert column.to_pylist() == [[{"key": "a\ufffdc", "value": b"1"}]]


def test_the_rest_of_the_records_package_needs_neither_numpy_nor_pyarrow() -> None:
    code = (
        "import sys, oncestream.records.batch, oncestream.records.records, oncestream.records.control,"
        " oncestream.records.murmur2; sys.exit(bool({'numpy', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
