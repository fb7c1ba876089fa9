from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncestream.records.batch import BatchHeader, parse_header
from oncestream.storage.log import Log
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import Store, batch_of


def write(log: Log, producer_id: int, sequence: int = 0, epoch: int = 0, count: int = 1) -> int:
    values = [b"%d" % producer_id] * count
    return log.append(
        batch_of(values, producer_id=producer_id, sequence=sequence, epoch=epoch, transactional=True)
    ).base_offset


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    return log.append_marker(producer_id, epoch, coordinator_epoch, commit).base_offset


def test_the_oldest_open_transaction_holds_the_stable_offset(store: Store) -> None:
    log = store.log
    log.append(batch_of([b"plain"]))
    write(log, 1)
    write(log, 2)
    assert (log.first_unstable_offset, log.stable_offset(log.end_offset)) == (1, 1)
    end(log, 1, commit=True)
    assert (log.first_unstable_offset, log.stable_offset(log.end_offset)) == (2, 2)
    end(log, 2, commit=False)
    assert (log.first_unstable_offset, log.stable_offset(log.end_offset)) == (None, 5)


def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark(store: Store) -> None:
    write(store.log, 1, count=3)
    marker = end(store.log, 1, commit=True)
    assert store.log.first_unstable_offset is None
    assert store.log.stable_offset(marker) == 0
    assert store.log.stable_offset(marker + 1) == marker + 1


def test_a_marker_takes_an_offset_and_is_a_control_batch(store: Store) -> None:
    write(store.log, 1, count=2)
    assert end(store.log, 1, commit=True) == 2
    headers = [parse_header(batch) for batch in store.log.batches(0)]
    assert [header.is_control for header in headers] == [False, True]
    assert store.log.end_offset == 3


@pytest.mark.parametrize("stop", ["none", "clean", "kill"])
def test_aborted_transactions_that_overlap_are_found(small: Store, stop: str) -> None:
    log = small.log
    for number in range(20):
        write(log, number % 3, sequence=number // 3)
        log.append(batch_of([b"filler" * 10]))
        end(log, number % 3, commit=number % 2 == 0)
    if stop != "none":
        log = (small.restart() if stop == "clean" else small.reborn()).log
    aborted = [(t.producer_id, t.first_offset) for t in log.aborted(0, log.end_offset)]
    assert aborted == [(number % 3, 3 * number) for number in range(1, 20, 2)]
    assert [t.first_offset for t in log.aborted(10, 16)] == [9, 15]
    assert log.aborted(12, 15) == []
    assert [t.first_offset for t in log.aborted(11, 12)] == [9]


@pytest.mark.parametrize("stop", ["none", "clean", "kill"])
def test_what_was_read_ends_where_the_next_batches_begin(small: Store, stop: str) -> None:
    for number in range(30):
        write(small.log, 1, sequence=number)
        end(small.log, 1, commit=False)
    store = {"none": lambda: small, "clean": small.restart, "kill": small.reborn}[stop]()
    log, upper_offset = store.log, small.log.end_offset
    assert len(list(store.log_folder.glob("*.log"))) > 3
    for offset in range(upper_offset):
        for max_bytes in (1, 100, 250, 1000, 3000, 1 << 20):
            slices = log.read(offset, max_bytes, upper_offset)
            size = sum(piece.size for piece in slices)
            read = [header.last_offset for header in headers_in(log, offset, size)]
            bound = log.end_of(slices, offset, upper_offset)
            assert read[-1] < bound <= min(read[-1] + 5, upper_offset)  # an index entry is not far


def headers_in(log: Log, offset: int, size_bytes: int) -> Iterator[BatchHeader]:
    """Of the whole batches in the first bytes from an offset on."""
    for header in map(parse_header, log.batches(offset)):
        size_bytes -= header.size_bytes
        if size_bytes < 0:
            return
        yield header


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_open_transactions_survive_a_restart(small: Store, stop: str) -> None:
    write(small.log, 1)
    for _ in range(10):
        small.log.append(batch_of([b"filler" * 20]))
    write(small.log, 2)
    log = (small.restart() if stop == "clean" else small.reborn()).log
    assert log.first_unstable_offset == 0
    assert [(t.producer_id, t.first_offset) for t in log.open_transactions()] == [(1, 0), (2, 11)]
    end(log, 1, commit=False)
    assert log.first_unstable_offset == 11
    assert [t.first_offset for t in log.aborted(0, 5)] == [0]


def test_a_marker_of_an_older_producer_epoch_or_coordinator_is_fenced(store: Store) -> None:
    write(store.log, 1, epoch=5)
    with pytest.raises(KafkaError) as caught:
        end(store.log, 1, commit=True, epoch=4)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    end(store.log, 1, commit=True, epoch=5, coordinator_epoch=3)
    with pytest.raises(KafkaError) as caught:
        end(store.log, 1, commit=True, epoch=5, coordinator_epoch=2)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_bumped_epoch_makes_the_producer_start_at_zero(store: Store) -> None:
    write(store.log, 1, sequence=0, epoch=0)
    end(store.log, 1, commit=False, epoch=1)
    for sequence, epoch, code in (
        (1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        with pytest.raises(KafkaError) as caught:
            write(store.log, 1, sequence=sequence, epoch=epoch)
        assert caught.value.code == code
    assert write(store.log, 1, sequence=0, epoch=1) == 2


def test_a_plain_write_inside_an_open_transaction_is_refused(store: Store) -> None:
    write(store.log, 1)
    with pytest.raises(KafkaError) as caught:
        store.log.append(batch_of([b"x"], producer_id=1, sequence=1))
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE


def test_a_marker_without_a_transaction_leaves_no_trace_in_the_index(store: Store) -> None:
    end(store.log, 1, commit=False)
    assert store.log.aborted(0, 10) == []
    assert store.log.producers()[0].coordinator_epoch == 0
