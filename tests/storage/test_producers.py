from __future__ import annotations

from pathlib import Path

import pytest

from oncestream.records.batch import SEQUENCE_MAX
from oncestream.storage.config import DAY_MS, LogConfig
from oncestream.storage.log import Log
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import Store, batch_of, values_in


def send(log: Log, sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 9) -> Appended:
    values = [b"%d" % (sequence + number) for number in range(count)]
    return log.append(batch_of(values, producer_id=producer_id, epoch=epoch, sequence=sequence))


def refused(log: Log, sequence: int, *, count: int = 1, epoch: int = 0) -> ErrorCode:
    end_offset = log.end_offset
    with pytest.raises(KafkaError) as caught:
        send(log, sequence, count=count, epoch=epoch)
    assert log.end_offset == end_offset
    return caught.value.code


def test_each_of_the_last_five_batches_is_known_again_with_its_offsets(store: Store) -> None:
    for number in range(7):
        send(store.log, 3 * number, count=3)
    for number in range(2, 7):
        again = send(store.log, 3 * number, count=3)
        assert (again.base_offset, again.last_offset, again.duplicate) == (3 * number, 3 * number + 2, True)
    assert store.log.end_offset == 21


def test_a_duplicate_older_than_five_batches_is_out_of_order(store: Store) -> None:
    for number in range(6):
        send(store.log, number)
    assert refused(store.log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_another_range_of_known_sequences_is_no_duplicate(store: Store) -> None:
    send(store.log, 0, count=3)
    assert refused(store.log, 0, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(store.log, 1, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order(store: Store) -> None:
    send(store.log, 0)
    assert refused(store.log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(store.log, 1).base_offset == 1


def test_an_unknown_producer_may_start_anywhere(store: Store) -> None:
    assert send(store.log, 500).base_offset == 0
    assert refused(store.log, 502) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(store.log, 501).base_offset == 1


def test_an_old_epoch_is_refused_and_a_new_one_starts_at_zero(store: Store) -> None:
    send(store.log, 0, epoch=3)
    assert refused(store.log, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(store.log, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(store.log, 0, epoch=4).duplicate is False
    assert refused(store.log, 0, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap(store: Store) -> None:
    send(store.log, SEQUENCE_MAX - 1, count=3)
    assert send(store.log, 1).base_offset == 3
    assert send(store.log, SEQUENCE_MAX - 1, count=3).duplicate
    send(store.log, 2)
    assert store.log.producers()[0].last_sequence == 2


def test_a_sequence_that_ends_at_the_maximum_is_followed_by_zero(store: Store) -> None:
    send(store.log, SEQUENCE_MAX)
    assert refused(store.log, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(store.log, 0).base_offset == 1


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_five_batches_are_known_after_a_restart(small: Store, stop: str) -> None:
    for number in range(12):
        send(small.log, 2 * number, count=2)
    again = small.restart() if stop == "clean" else small.reborn()
    for number in range(7, 12):
        answer = send(again.log, 2 * number, count=2)
        assert (answer.base_offset, answer.duplicate) == (2 * number, True)
    assert refused(again.log, 12, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again.log, 24).base_offset == 24


def test_producers_survive_the_loss_of_every_snapshot(small: Store) -> None:
    for number in range(12):
        send(small.log, number)
    small.folder.close()
    for path in small.log_folder.glob("*.snapshot"):
        path.write_bytes(b"not a snapshot")
    again = Store(small.path, small.config, small.clock)
    assert send(again.log, 9).duplicate
    assert send(again.log, 12).base_offset == 12


def test_a_silent_producer_expires_and_may_start_anywhere(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    send(store.log, 0)
    store.clock.now_ms += 999
    store.log.apply_retention(store.clock.now_ms)
    assert len(store.log.producers()) == 1
    store.clock.now_ms += 1
    store.log.apply_retention(store.clock.now_ms)
    assert store.log.producers() == []
    assert send(store.log, 77).base_offset == 1


def test_a_producer_of_old_records_is_known_as_long_as_any_other(tmp_path: Path) -> None:
    """A backfill: expiry goes by when a batch was appended, not by the time its client wrote into it."""
    store = Store(tmp_path / "data", LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    old_ms = store.clock.now_ms - 2 * DAY_MS
    store.log.append(batch_of([b"v"], producer_id=1, timestamp=old_ms, transactional=True))
    store.clock.now_ms += 5000
    store.log.append_marker(1, 0, 0, commit=True)
    marked_ms = store.clock.now_ms
    store.log.append(batch_of([b"v"], producer_id=2, timestamp=old_ms))
    now = store
    for again in (None, store.reborn, store.restart):
        now = again() if again else store
        now.clock.now_ms += 999
        now.log.apply_retention(now.clock.now_ms)
        told = {each.producer_id: each.last_timestamp for each in now.log.producers()}
        assert told == {1: marked_ms, 2: old_ms}, "DescribeProducers tells the times in the batches"
        assert now.log.append(batch_of([b"v"], producer_id=2, timestamp=old_ms)).duplicate
    now.clock.now_ms += 1
    now.log.apply_retention(now.clock.now_ms)
    assert now.log.producers() == []


def test_a_producer_with_an_open_transaction_does_not_expire(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    store.log.append(batch_of([b"a"], producer_id=9, transactional=True))
    store.clock.now_ms += 5000
    store.log.apply_retention(store.clock.now_ms)
    assert [producer.txn_start_offset for producer in store.log.producers()] == [0]


def test_producers_are_described(store: Store) -> None:
    send(store.log, 0, count=4, epoch=2)
    (info,) = store.log.producers()
    assert (info.producer_id, info.producer_epoch, info.last_sequence) == (9, 2, 3)
    assert (info.coordinator_epoch, info.txn_start_offset) == (-1, -1)


def test_producers_do_not_disturb_each_other(store: Store) -> None:
    for number in range(10):
        store.log.append(batch_of([b"%d" % number], producer_id=number % 3, sequence=number // 3))
    assert len(values_in(store.log)) == 10


def test_the_end_of_what_a_producer_wrote_is_known_for_a_commit_to_flush(store: Store) -> None:
    assert store.log.end_offset_of(9) == 0
    send(store.log, 0, count=3)
    send(store.log, 0, producer_id=8)
    assert store.log.end_offset_of(9) == 3
    send(store.log, 3)
    assert store.log.end_offset_of(9) == 5
    store.log.append_marker(7, 0, 0, commit=True)
    assert store.log.end_offset_of(7) == 0, "a marker is no data"
