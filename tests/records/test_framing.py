from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.records.batch import HEADER_SIZE, parse_header
from oncestream.records.framing import HEADERS_MAX, Deltas, check_framing
from oncestream.records.records import Header, Record, build_batch, rebuild_batch, records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.effort import effort
from tests.records.malformed import MALFORMED, MISNUMBERED, NEGATIVE, WELL_FORMED, batch_of, record, varint

MAYBE_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.builds(Header, st.text(max_size=5), MAYBE_BYTES), max_size=3).map(tuple)
TIMES = st.integers(0, 10**4) | st.integers(-(2**62), 2**62)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMES, MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=70
).map(lambda records: [record._replace(offset=number) for number, record in enumerate(records)])
CHANGES = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3)


def refusal(payload: bytes, count: int) -> str:
    with pytest.raises(KafkaError) as caught:
        check_framing(payload, 0, count)
    assert caught.value.code == ErrorCode.INVALID_RECORD
    return caught.value.message


def checked(payload: bytes, count: int) -> Deltas | str:
    """The distances of the times; or why it is refused."""
    try:
        return check_framing(payload, 0, count)
    except KafkaError as error:
        return f"{error.code.name} {error.message}"


def read(batch: bytes) -> list[Record] | None:
    """By the reader of single records; None where it cannot."""
    try:
        return list(records_of(batch))
    except KafkaError:
        return None


@settings(max_examples=effort(sample=40, soak=5000))
@given(RECORDS)
def test_records_that_fill_their_batch_are_taken(records: list[Record]) -> None:
    batch = bytes(build_batch(records))
    times = [each.timestamp - records[0].timestamp for each in records]
    assert check_framing(batch, HEADER_SIZE, len(records)) == Deltas(min(times), max(times))


@settings(max_examples=effort(sample=150, soak=30_000))
@given(RECORDS, CHANGES, st.integers(-1, 1))
def test_what_is_taken_can_be_read_and_what_can_be_read_is_taken(
    records: list[Record], changes: list[tuple[int, int]], more: int
) -> None:
    """But for what other readers cannot have: other offsets, integers that are too long, negative lengths."""
    payload = build_batch(records)[HEADER_SIZE:]
    for position, byte in changes:
        payload[position % min(len(payload), 60)] = byte  # where the lengths are
    count = len(records) + more
    found = read(batch_of(bytes(payload), count, timestamp_ms=0))
    told = checked(bytes(payload), count)
    if isinstance(told, Deltas) and count:
        assert found is not None
        times = [each.timestamp for each in found]
        assert told == Deltas(min(times), max(times))
        assert [each.offset for each in found] == list(range(count))
    elif found is not None and [each.offset for each in found] == list(range(count)):
        assert isinstance(told, str)
        assert told.startswith("INVALID_RECORD the integer before byte ") or told.endswith(" is negative")


@pytest.mark.parametrize("name", [*MALFORMED, *MISNUMBERED, *NEGATIVE])
def test_what_is_malformed_is_refused(name: str) -> None:
    payload, count = {**MALFORMED, **MISNUMBERED, **NEGATIVE}[name]
    refusal(payload, count)


def test_the_record_that_is_wrong_is_named() -> None:
    records = b"".join(record(number) for number in range(500))
    assert refusal(records + record(499), 501).startswith("record 500: its offset")


def test_a_batch_has_a_bounded_number_of_headers() -> None:
    half = varint(HEADERS_MAX // 2) + b"\0\1" * (HEADERS_MAX // 2)
    check_framing(record(0, headers=half) + record(1, headers=half), 0, 2)
    one_more = record(2, headers=varint(1) + b"\0\1")
    told = refusal(record(0, headers=half) + record(1, headers=half) + one_more, 3)
    assert told == "record 2: with its headers the batch has more than 1000000"


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63), -1, 0])
def test_the_distances_of_times_are_exact(delta: int) -> None:
    payload = record(0, time=varint(delta)) + record(1, time=varint(5)) + record(2, time=varint(delta))
    assert check_framing(payload, 0, 3) == Deltas(min(5, delta), max(5, delta))
    assert check_framing(record(time=varint(delta)), 0, 1) == Deltas(delta, delta)


@pytest.mark.parametrize("name", WELL_FORMED)
def test_what_is_unusual_is_read_and_kept_as_it_is(name: str) -> None:
    payload, count = WELL_FORMED[name]
    check_framing(payload, 0, count)
    batch = batch_of(payload, count)
    again = rebuild_batch(parse_header(batch), list(records_of(batch)), delete_horizon_ms=None)
    assert list(records_of(again)) == list(records_of(batch))
