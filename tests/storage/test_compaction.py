from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oncestream.records.batch import check_batch
from oncestream.storage.disk import Disk
from oncestream.storage.steps import run_here
from oncestream.wire.error_codes import KafkaError
from tests.storage.compacting import COMPACT, compact, planned, put, roll, survivors
from tests.storage.kit import START_MS, Store, batch_of, read_bytes

DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data", COMPACT)


def test_of_every_key_the_last_record_stays_at_its_offset(store: Store) -> None:
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    assert compact(store) is not None
    assert survivors(store.log) == [(27, b"0", b"v27"), (28, b"1", b"v28"), (29, b"2", b"v29")]


def test_small_neighbours_become_one_segment(store: Store) -> None:
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    compact(store)
    many = len(list(store.log_folder.glob("*.log")))
    put(store, b"next", b"v")
    roll(store)
    compact(store)
    assert len(list(store.log_folder.glob("*.log"))) < many / 2
    assert [offset for offset, _, _ in survivors(store.log)] == [27, 28, 29, 30]


def test_every_offset_can_be_read_after_compaction(store: Store) -> None:
    for number in range(30):
        put(store, b"%d" % (number % 4), b"v%d" % number)
    roll(store)
    put(store, b"x", b"tail")
    compact(store)
    stored = [bytes(batch) for batch in store.log.batches(0)]
    for offset in range(31):
        rest = [batch for batch in stored if check_batch(memoryview(batch)).last_offset >= offset]
        assert read_bytes(store.log, offset) == b"".join(rest)


def test_records_of_the_live_segment_are_left_alone(store: Store) -> None:
    for number in range(30):
        put(store, b"same", b"v%d" % number)
    live_base = int(max(store.log_folder.glob("*.log")).stem)
    compact(store)
    offsets = [offset for offset, _, _ in survivors(store.log)]
    assert offsets == [live_base - 1, *range(live_base, 30)]


def test_a_tombstone_stays_until_its_retention_is_over(store: Store) -> None:
    put(store, b"gone", b"v")
    put(store, b"gone", None)
    put(store, b"other", b"v")
    roll(store)
    compact(store)
    assert survivors(store.log) == [(1, b"gone", None), (2, b"other", b"v")]
    store.clock.now_ms += DAY_MS - 1
    put(store, b"more", b"v")
    roll(store)
    compact(store)
    assert (1, b"gone", None) in survivors(store.log)
    store.clock.now_ms += 1
    put(store, b"yet more", b"v")
    roll(store)
    compact(store)
    assert [key for _, key, _ in survivors(store.log)] == [b"other", b"more", b"yet more"]


def test_young_records_wait_for_the_minimum_lag(store: Store) -> None:
    store.log.config = replace(COMPACT, min_compaction_lag_ms=1000)
    for number in range(20):
        put(store, b"same", b"v%d" % number)
    roll(store)
    store.clock.now_ms += 999
    assert compact(store) is None
    store.clock.now_ms += 1
    assert compact(store) is not None
    assert len(survivors(store.log)) == 1


def test_a_little_dirt_waits_for_more_or_for_the_maximum_lag(store: Store) -> None:
    store.log.config = replace(COMPACT, min_cleanable_dirty_ratio=0.6)
    for number in range(20):
        put(store, b"%d" % number, b"v" * 20)
    roll(store)
    assert compact(store) is not None
    for number in range(5):
        put(store, b"%d" % number, b"w" * 20)
    roll(store)
    assert compact(store) is None
    store.log.config = replace(COMPACT, min_cleanable_dirty_ratio=0.6, max_compaction_lag_ms=1000)
    store.clock.now_ms += 1001
    assert compact(store) is not None
    assert len(survivors(store.log)) == 20


def test_an_open_transaction_stops_compaction_before_it(store: Store) -> None:
    for number in range(10):
        put(store, b"same", b"v%d" % number)
    store.log.append(batch_of([b"t"], keys=[b"same"], producer_id=1, transactional=True))
    for number in range(10):
        put(store, b"same", b"w%d" % number)
    roll(store)
    compact(store)
    assert [offset for offset, _, _ in survivors(store.log)] == list(range(9, 21))


def test_aborted_records_go_and_do_not_shadow_committed_ones(store: Store) -> None:
    put(store, b"k", b"kept")
    store.log.append(batch_of([b"aborted"], keys=[b"k"], producer_id=1, transactional=True))
    store.log.append_marker(1, 0, 0, False)
    store.log.append(batch_of([b"committed"], keys=[b"c"], producer_id=2, transactional=True))
    store.log.append_marker(2, 0, 0, True)
    roll(store)
    compact(store)
    assert survivors(store.log) == [(0, b"k", b"kept"), (3, b"c", b"committed")]


def test_markers_of_emptied_transactions_age_like_tombstones(store: Store) -> None:
    store.log.append(batch_of([b"aborted"], keys=[b"k"], producer_id=1, transactional=True))
    store.log.append_marker(1, 0, 0, False)
    put(store, b"other", b"v")
    roll(store)

    def markers() -> list[int]:
        headers = [check_batch(batch) for batch in store.log.batches(0)]
        return [header.base_offset for header in headers if header.is_control and header.count]

    def compact_next_day() -> list[int]:
        put(store, b"next", b"v")
        roll(store)
        store.clock.now_ms += DAY_MS
        compact(store)
        return markers()

    assert compact_next_day() == [1]  # the emptied batch still carries its live producer's sequence
    store.log.config = replace(COMPACT, producer_id_expiration_ms=1)
    store.log.apply_retention(store.clock.now_ms)
    assert compact_next_day() == [1]  # the last of its records goes
    assert compact_next_day() == [1]  # nothing is left of the transaction: the marker begins to age
    assert compact_next_day() == []
    assert store.log.aborted(0, 100) == []


def test_the_last_sequence_of_a_live_producer_survives_its_records(store: Store) -> None:
    for number in range(10):
        put(store, b"k", b"v%d" % number, producer_id=7, sequence=number)
    put(store, b"k", b"newest")
    roll(store)
    compact(store)
    assert [value for _, _, value in survivors(store.log)] == [b"newest"]
    for path in store.log_folder.glob("*.snapshot"):
        path.unlink()
    again = store.reborn()
    assert [(p.producer_id, p.last_sequence) for p in again.log.producers()] == [(7, 9)]
    again.log.append(batch_of([b"x"], keys=[b"k"], producer_id=7, sequence=10))


def test_compacting_again_changes_nothing(store: Store) -> None:
    for number in range(30):
        put(store, b"%d" % (number % 5), b"v%d" % number)
    roll(store)
    compact(store)
    before = survivors(store.log)
    put(store, b"new", b"v")
    roll(store)
    compact(store)
    assert survivors(store.log) == [*before, (30, b"new", b"v")]
    assert compact(store) is None


def test_appends_and_reads_go_on_while_a_job_runs(store: Store) -> None:
    job = planned(store)
    assert store.log.plan_compaction(store.clock.now_ms) is None
    pieces = store.log.read(0, 10**6, 30)
    before = b"".join(piece.read() for piece in pieces)
    job.run()
    put(store, b"0", b"while it ran")
    assert len(survivors(store.log)) == 31
    run_here(store.log.finish_compaction(job))
    assert b"".join(piece.read() for piece in pieces) == before
    assert survivors(store.log)[-1] == (30, b"0", b"while it ran")


def test_a_job_whose_segments_were_deleted_meanwhile_is_dropped(store: Store) -> None:
    job = planned(store)
    job.run()
    store.log.delete_before(30)
    run_here(store.log.finish_compaction(job))
    assert survivors(store.log) == []
    assert not list(store.log_folder.glob("*.cleaned"))
    put(store, b"x", b"y")
    assert survivors(store.reborn().log) == [(30, b"x", b"y")]


def test_a_job_of_a_deleted_log_leaves_a_new_log_of_its_name_alone(store: Store) -> None:
    job = planned(store)
    old = store.log
    store.folder.delete_log(old)
    store.log = store.folder.open_log("events", 0, b"n" * 16, COMPACT)
    put(store, b"new", b"v")
    job.run()
    run_here(old.finish_compaction(job))
    assert survivors(store.log) == [(0, b"new", b"v")]
    assert survivors(store.reborn().log) == [(0, b"new", b"v")]
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        old.append(batch_of([b"x"], keys=[b"k"]))


def test_a_job_that_finds_no_room_for_all_keys_does_the_rest_later(store: Store) -> None:
    for number in range(60):
        put(store, b"%d" % (number % 20), b"v%d" % number)
    roll(store)
    for _ in range(10):
        job = store.log.plan_compaction(store.clock.now_ms)
        if job is None:
            break
        job.keys_max = 8
        job.run()
        assert job.error is None
        run_here(store.log.finish_compaction(job))
    latest = {key: value for _, key, value in survivors(store.log)}
    assert latest == {b"%d" % (number % 20): b"v%d" % number for number in range(40, 60)}
    assert len(survivors(store.log)) == len(latest), "no key was passed over"


def test_a_crash_at_any_moment_of_the_swap_loses_nothing(tmp_path: Path) -> None:
    class NotingDisk(Disk):
        on_name: Callable[[], object] = staticmethod(lambda: None)  # one was changed or removed

        def rename(self, path: Path, target: Path) -> None:
            super().rename(path, target)
            self.on_name()

        def remove(self, path: Path) -> None:
            super().remove(path)
            self.on_name()

    disk = NotingDisk()
    store = Store(tmp_path / "data", COMPACT, disk=disk)
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    put(store, b"tail", b"v")
    expected = {key: value for _, key, value in survivors(store.log)}
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    job.run()
    crashes = [store.killed()]
    disk.on_name = lambda: crashes.append(store.killed())
    run_here(store.log.finish_compaction(job))
    assert len(crashes) > 10
    for crash in crashes:
        again = Store(crash, store.config, store.clock)
        assert again.log.failed is None
        assert again.log.end_offset == 31
        assert {key: value for _, key, value in survivors(again.log)} == expected
        assert not [path for path in again.log_folder.iterdir() if path.suffix in (".cleaned", ".swap")]
        again.log.append(batch_of([b"v"], keys=[b"after"]))
        again.folder.close()


def test_tombstones_with_a_horizon_are_dated_from_the_first_cleaning(store: Store) -> None:
    put(store, b"gone", None)
    roll(store)
    compact(store)
    (header,) = [check_batch(batch) for batch in store.log.batches(0)]
    assert header.delete_horizon_ms == START_MS + DAY_MS


def test_a_job_runs_on_its_own_thread_while_the_owner_writes_reads_and_rolls(store: Store) -> None:
    for number in range(400):
        put(store, b"%d" % (number % 10), b"v%d" % number)
    roll(store)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    worker = threading.Thread(target=job.run)
    worker.start()
    written = 400
    while worker.is_alive() or written < 450:
        put(store, b"%d" % (written % 10), b"v%d" % written)
        assert read_bytes(store.log, written - 5).count(b"v%d" % written) == 1
        written += 1
    worker.join()
    run_here(store.log.finish_compaction(job))
    assert [offset for offset, _, _ in survivors(store.log)] == list(range(390, written))
    assert len(survivors(store.reborn().log)) == written - 390
