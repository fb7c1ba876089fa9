from __future__ import annotations

import pytest

from oncestream.records.compression import Codec
from oncestream.records.records import Record, build_batch
from oncestream.storage.log import Log
from tests.storage.kit import START_MS, Store, batch_of, records_in

TIMES = [5, 3, 9, 9, 1, 20, 15, 16, 30, 2, 31, 31, 40, 7, 8, 41, 50, 45, 60, 10, 70, 71, 65, 80]


def append_times(log: Log, codec: Codec) -> None:
    """Three records to a batch, at odd times."""
    for start in range(0, len(TIMES), 3):
        times = TIMES[start : start + 3]
        records = [Record(number, START_MS + time, b"k", b"v" * 30) for number, time in enumerate(times)]
        log.append(memoryview(build_batch(records, codec=codec)))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("stop", ["none", "clean", "kill"])
def test_a_timestamp_finds_the_first_record_at_or_after_it(small: Store, stop: str, codec: Codec) -> None:
    append_times(small.log, codec)
    log = small.log
    if stop != "none":
        log = (small.restart() if stop == "clean" else small.reborn()).log
    for time in range(-1, 90):
        expected = next((offset for offset, at in enumerate(TIMES) if at >= time), None)
        found = log.offset_for_timestamp(START_MS + time, log.end_offset)
        assert (found.offset if found else None) == expected
        if found:
            assert (found.timestamp, found.leader_epoch) == (START_MS + TIMES[found.offset], 0)


def test_a_timestamp_finds_nothing_below_the_start_or_at_the_upper_offset(small: Store) -> None:
    append_times(small.log, Codec.NONE)
    small.log.delete_before(7)
    found = small.log.offset_for_timestamp(START_MS, 24)
    assert found is not None
    assert found.offset == 7
    assert small.log.offset_for_timestamp(START_MS + 80, 23) is None


@pytest.mark.parametrize("stop", ["none", "clean", "kill"])
def test_the_largest_timestamp_is_exact_to_the_record(small: Store, stop: str) -> None:
    records = [Record(number, START_MS + time, None, b"v") for number, time in enumerate([4, 9, 7])]
    small.log.append(memoryview(build_batch(records)))
    small.log.append(batch_of([b"later"], timestamp=START_MS + 5))
    log = small.log
    if stop != "none":
        log = (small.restart() if stop == "clean" else small.reborn()).log
    assert log.max_timestamp() == (START_MS + 9, 1, 0)


def test_an_empty_log_has_no_largest_timestamp(store: Store) -> None:
    assert store.log.max_timestamp() is None
    assert store.log.offset_for_timestamp(0, 10) is None


def test_leader_epochs_end_where_the_next_begins(small: Store) -> None:
    small.log.append(batch_of([b"a", b"b"]))
    second = small.reborn()
    second.log.append(batch_of([b"c"]))
    third = second.reborn()
    third.log.append(batch_of([b"d"]))
    log = third.log
    assert log.leader_epoch == 2
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(1) == (1, 3)
    assert log.end_offset_for_epoch(2) == (2, 4)
    assert log.end_offset_for_epoch(3) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)
    assert [record.offset for record in records_in(log)] == [0, 1, 2, 3]


def test_deleting_records_moves_the_oldest_epoch_to_the_new_start(small: Store) -> None:
    for _ in range(10):
        small.log.append(batch_of([b"a" * 100]))
    again = small.reborn()
    again.log.append(batch_of([b"b"]))
    again.log.delete_before(10)
    assert again.log.end_offset_for_epoch(0) == (0, 10)
