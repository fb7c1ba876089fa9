"""A disk without room: what is refused, what goes on, and that nothing of it is seen later."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncestream.errors import DataFolderUnusable
from oncestream.storage.config import LogConfig
from oncestream.storage.room import QUIET_MS, DiskFull
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults, FaultyDisk, FileControlledDisk
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.compacting import COMPACT, put, roll, survivors
from tests.storage.kit import TOPIC_ID, Store, batch_of, values_in

FULL = DiskFaults(room_bytes=0)
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
ABORTED, COMMITTED = 7, 8


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Store:
    return Store(tmp_path / "data", SMALL, disk=disk)


def fill(store: Store, count: int) -> list[bytes | None]:
    values: list[bytes | None] = [b"%03d" % number * 20 for number in range(count)]
    for value in values:
        store.log.append(batch_of([value], timestamp=store.clock.now_ms))
    store.sync()
    return values


@pytest.mark.parametrize("later_ms", [QUIET_MS, -3_600_000], ids=["later", "clock set back"])
def test_there_is_one_line_when_the_disk_is_full_and_one_when_it_has_room_again(
    store: Store, disk: FaultyDisk, caplog: pytest.LogCaptureFixture, later_ms: int
) -> None:
    caplog.set_level(logging.INFO, "oncestream")
    for _ in range(3):
        disk.set_faults(FULL)
        with pytest.raises(DiskFull, match="the disk of the broker is full"):
            store.log.append(batch_of([b"large"]))
        disk.set_faults(DiskFaults())
        store.log.append(batch_of([b""]))  # a small one that just fits
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    store.clock.now_ms += later_ms
    for _ in range(3):
        store.log.append(batch_of([b"v"]))
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "room again" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("unmade", range(3), ids=["offset index", "time index", "log"])
def test_a_segment_that_could_not_be_made_is_not_the_end_of_the_log_after_a_restart(
    tmp_path: Path, unmade: int
) -> None:
    made: list[str | Path] = []

    class FillsUp(FaultyDisk):
        def make_file(self, path: str | Path) -> None:
            if f"{3:020d}" in str(path) and ".snapshot" not in str(path) and len(made) <= unmade:
                if len(made) == unmade:
                    self.set_faults(FULL)
                made.append(path)
            super().make_file(path)

    disk = FillsUp()
    store = Store(tmp_path / "data", SMALL, disk=disk)
    values = fill(store, 3)
    with pytest.raises(DiskFull):
        store.log.append(batch_of([b"v" * 500]))
    assert len(made) == unmade + 1
    disk.set_faults(DiskFaults())
    store.log.append(batch_of([b"fits"]))
    for again in (store.reborn(), store.restart()):
        assert values_in(again.log) == [*values, b"fits"]
        again.log.append(batch_of([b"v" * 500]))
        assert values_in(again.log, 4) == [b"v" * 500]


def test_retention_makes_room_on_a_full_disk(store: Store, disk: FaultyDisk) -> None:
    fill(store, 40)
    closed = sorted(store.log_folder.glob("*.log"))[:-1]
    store.log.config = LogConfig(segment_bytes=600, retention_bytes=0)
    disk.set_faults(FULL)
    with pytest.raises(DiskFull):  # the live one cannot be replaced
        store.log.apply_retention(store.clock.now_ms)
    assert [path for path in closed if path.exists()] == []
    disk.set_faults(DiskFaults())
    store.log.apply_retention(store.clock.now_ms)
    assert store.log.start_offset == store.log.end_offset == 40
    assert store.reborn().log.start_offset == 40


def test_deleting_records_makes_room_on_a_full_disk(store: Store, disk: FaultyDisk) -> None:
    values = fill(store, 40)
    size_bytes = store.log.size_bytes
    disk.set_faults(FULL)
    with pytest.raises(DiskFull):
        store.log.delete_before(35)
    assert store.log.size_bytes < size_bytes / 2
    assert len(values_in(store.reborn().log)) < 20
    disk.set_faults(DiskFaults())
    assert store.log.delete_before(36) == 36
    assert values_in(store.reborn().log) == values[36:]


@pytest.mark.parametrize("room_bytes", [0, 100, 250])
def test_a_compaction_without_room_leaves_the_log_as_it_was_and_can_be_done_later(
    tmp_path: Path, disk: FaultyDisk, room_bytes: int
) -> None:
    store = Store(tmp_path / "data", COMPACT, disk=disk)
    for number in range(20):
        put(store, b"key-%d" % (number % 3), b"%d" % number * 20)
    roll(store)
    before = survivors(store.log)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    disk.set_faults(DiskFaults(room_bytes=room_bytes))
    job.run()
    run_here(store.log.finish_compaction(job))
    assert isinstance(job.error, DiskFull)
    assert (store.log.failed, survivors(store.log)) == (None, before)
    assert list(store.log_folder.glob("*.cleaned")) == []
    disk.set_faults(DiskFaults())
    again = store.log.plan_compaction(store.clock.now_ms)
    assert again is not None
    again.run()
    run_here(store.log.finish_compaction(again))
    assert len(survivors(store.log)) == 3


def test_holes_that_cannot_be_announced_are_not_made(tmp_path: Path, disk: FaultyDisk) -> None:
    store = Store(tmp_path / "data", COMPACT, disk=disk)
    for number in range(20):
        put(store, b"key", b"%d" % number * 20)
    roll(store)
    before = survivors(store.log)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    job.run()
    disk.set_faults(FULL)
    run_here(store.log.finish_compaction(job))
    assert (store.log.failed, survivors(store.log)) == (None, before)
    disk.set_faults(DiskFaults())
    assert survivors(store.reborn().log) == before


def test_a_start_after_kill_on_a_full_disk_serves_reads_and_then_writes(
    store: Store, disk: FaultyDisk
) -> None:
    values = fill(store, 40)
    disk.set_faults(FULL)
    again = store.reborn()
    assert values_in(again.log) == values
    assert again.log.leader_epoch == 1
    with pytest.raises(DiskFull):
        again.log.append(batch_of([b"v"]))
    with pytest.raises(DiskFull):
        run_here(again.folder.checkpoint())
    once_more = again.reborn()  # killed on the full disk, too
    disk.set_faults(DiskFaults())
    run_here(again.folder.checkpoint())
    assert again.reborn().log.leader_epoch == 2
    for log in (again, once_more):
        log.log.append(batch_of([b"later"]))
        log.sync()
        run_here(log.folder.checkpoint())
        assert values_in(log.reborn().log) == values_in(log.restart().log) == [*values, b"later"]


def test_aborted_records_stay_aborted_over_starts_on_a_full_disk(store: Store, disk: FaultyDisk) -> None:
    """The index of aborted transactions is rebuilt at such a start and cannot be written then."""
    for number in range(12):
        producer = ABORTED if number % 2 else COMMITTED
        store.log.append(batch_of([b"v" * 60], producer_id=producer, epoch=number, transactional=True))
        store.log.append_marker(producer, number + 1, 0, commit=producer == COMMITTED)
    store.sync()
    expected = store.log.aborted(0, store.log.end_offset)
    assert len(expected) == 6
    for path in store.log_folder.glob("*.txnindex"):
        path.unlink()
    disk.set_faults(FULL)
    again = store.reborn()
    assert again.log.aborted(0, again.log.end_offset) == expected
    with pytest.raises(DiskFull):
        run_here(again.folder.checkpoint())
    twice = again.reborn()
    assert twice.log.aborted(0, twice.log.end_offset) == expected
    disk.set_faults(DiskFaults())
    run_here(twice.folder.checkpoint())
    for last in (twice.reborn(), twice.restart()):
        assert last.log.aborted(0, last.log.end_offset) == expected


def test_a_stop_on_a_full_disk_is_an_unclean_one_and_loses_nothing(store: Store, disk: FaultyDisk) -> None:
    values = fill(store, 40)
    disk.set_faults(FULL)
    store.folder.close()
    disk.set_faults(DiskFaults())
    again = Store(store.path, store.config)
    assert (again.log.leader_epoch, values_in(again.log)) == (1, values)


def test_a_log_that_cannot_be_made_leaves_nothing(store: Store, disk: FaultyDisk) -> None:
    for room_bytes in (0, 10, 30):
        disk.set_faults(DiskFaults(room_bytes=room_bytes))
        with pytest.raises(DataFolderUnusable):
            store.folder.open_log("new", 0, TOPIC_ID, SMALL)
        assert not (store.path / "new-0").exists()
    disk.set_faults(DiskFaults())
    assert store.folder.open_log("new", 0, TOPIC_ID, SMALL).end_offset == 0


def test_a_disk_is_controlled_by_a_file(tmp_path: Path) -> None:
    control = tmp_path / "faults"
    disk = FileControlledDisk(control)
    store = Store(tmp_path / "data", SMALL, disk=disk)
    store.log.append(batch_of([b"a"]))
    FULL.save(control)
    with pytest.raises(DiskFull):
        store.log.append(batch_of([b"b"]))
    DiskFaults(sync_errors="*/other-*").save(control)
    store.log.append(batch_of([b"b"]))
    store.sync()
    DiskFaults(sync_errors="*/events-*").save(control)
    store.log.append(batch_of([b"c"]))
    with pytest.raises(KafkaError, match="sync of events-0 failed"):
        store.sync()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.one_of(st.just(None), st.integers(0, 400)), st.integers(0, 300), st.booleans(), st.booleans()
        ),
        min_size=1,
        max_size=25,
    )
)
def test_what_was_taken_is_there_and_nothing_else_however_the_room_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int | None, int, bool, bool]]
) -> None:
    disk = FaultyDisk()
    store = Store(tmp_path_factory.mktemp("full") / "data", SMALL, disk=disk)
    taken: list[bytes | None] = []
    codes: set[ErrorCode] = set()
    sequence = 0
    for room_bytes, size_bytes, stuck, restart in steps:
        disk.set_faults(DiskFaults(room_bytes=room_bytes, truncate_errors=stuck))
        value = b"%d" % sequence * size_bytes
        try:
            appended = store.log.append(batch_of([value[:300]], producer_id=1, sequence=sequence))
        except KafkaError as error:
            codes.add(error.code)
        else:
            assert appended.base_offset == len(taken)
            taken.append(value[:300])
            sequence += 1
        assert values_in(store.log) == taken
        if restart:
            disk.set_faults(DiskFaults(room_bytes=room_bytes))
            store = store.reborn()
            assert values_in(store.log) == taken
    assert codes <= {ErrorCode.KAFKA_STORAGE_ERROR}
    disk.set_faults(DiskFaults())
    store.log.append(batch_of([b"last"], producer_id=1, sequence=sequence))
    assert values_in(store.restart().log) == [*taken, b"last"]
