from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncestream.storage.config import LogConfig
from oncestream.storage.disk import Disk
from oncestream.testing.disk import DiskFaults, FaultyDisk
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import NotingDisk, Store, batch_of, read_bytes, values_in

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR.name

CONFIG = LogConfig(segment_bytes=1000)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Store:
    return Store(tmp_path / "data", CONFIG, disk=disk)


def storage_error(store: Store, sequence: int) -> None:
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.log.append(batch_of([b"v" * 50], producer_id=1, sequence=sequence))


def test_short_writes_are_completed(store: Store, disk: FaultyDisk) -> None:
    disk.set_faults(DiskFaults(short_writes=True))
    for number in range(20):
        store.log.append(batch_of([b"%d" % number * 30]))
    assert values_in(store.log) == [b"%d" % number * 30 for number in range(20)]
    assert values_in(store.reborn().log) == values_in(store.log)


def test_a_full_disk_leaves_the_log_as_it_was_and_usable(store: Store, disk: FaultyDisk) -> None:
    store.log.append(batch_of([b"v" * 50], producer_id=1, sequence=0))
    for room_bytes in (0, 1, 60, 100):
        disk.set_faults(DiskFaults(room_bytes=room_bytes))
        storage_error(store, 1)
        assert (store.log.end_offset, store.log.failed) == (1, None)
        assert (store.log_folder / f"{0:020d}.log").stat().st_size == store.log.size_bytes
    disk.set_faults(DiskFaults())
    assert store.log.append(batch_of([b"v"], producer_id=1, sequence=1)).base_offset == 1
    assert store.log.append(batch_of([b"v" * 50], producer_id=1, sequence=0)).duplicate
    assert len(values_in(store.reborn().log)) == 2


def test_a_disk_that_is_full_while_a_segment_rolls_can_go_on_later(store: Store, disk: FaultyDisk) -> None:
    for number in range(6):
        store.log.append(batch_of([b"v" * 50], producer_id=1, sequence=number))
    for room_bytes in range(0, 400, 13):
        disk.set_faults(DiskFaults(room_bytes=room_bytes))
        with pytest.raises(KafkaError, match=STORAGE_ERROR):
            store.log.append(batch_of([b"v" * 600], producer_id=1, sequence=6))
        assert store.log.end_offset == 6
    disk.set_faults(DiskFaults())
    assert store.log.append(batch_of([b"v" * 600], producer_id=1, sequence=6)).base_offset == 6
    assert len(values_in(store.log)) == 7
    assert len(values_in(store.reborn().log)) == 7
    assert len(values_in(store.restart().log)) == 7


def test_a_write_that_cannot_be_undone_is_undone_before_the_next_one(store: Store, disk: FaultyDisk) -> None:
    store.log.append(batch_of([b"v" * 50], producer_id=1, sequence=0))
    store.sync()
    torn = batch_of([b"torn" * 50], producer_id=1, sequence=1)
    disk.set_faults(DiskFaults(room_bytes=100, truncate_errors=True))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.log.append(torn)
    disk.set_faults(DiskFaults(truncate_errors=True))
    storage_error(store, 1)
    assert len(read_bytes(store.log, 0)) == store.log.size_bytes
    assert len(values_in(Store(store.killed(), store.config).log)) == 1
    disk.set_faults(DiskFaults())
    assert store.log.append(batch_of([b"v"], producer_id=1, sequence=1)).base_offset == 1
    assert (store.log_folder / f"{0:020d}.log").stat().st_size == store.log.size_bytes
    assert values_in(store.reborn().log) == values_in(store.restart().log) == [b"v" * 50, b"v"]


def test_a_segment_is_not_closed_with_half_a_batch_at_its_end(store: Store, disk: FaultyDisk) -> None:
    store.log.append(batch_of([b"v" * 50]))
    disk.set_faults(DiskFaults(room_bytes=100, truncate_errors=True))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.log.append(batch_of([b"torn" * 50]))
    store.log.config = LogConfig(segment_bytes=1000, retention_ms=-1)
    store.clock.now_ms += store.config.roll_ms + 1
    disk.set_faults(DiskFaults(truncate_errors=True))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.log.apply_retention(store.clock.now_ms)
    disk.set_faults(DiskFaults())
    store.log.apply_retention(store.clock.now_ms)
    store.log.append(batch_of([b"next"]))
    again = store.reborn()
    assert (again.log.failed, values_in(again.log)) == (None, [b"v" * 50, b"next"])


def test_a_log_that_is_closed_with_half_a_batch_at_its_end_is_not_closed_cleanly(
    store: Store, disk: FaultyDisk
) -> None:
    store.log.append(batch_of([b"v" * 50]))
    disk.set_faults(DiskFaults(room_bytes=100, truncate_errors=True))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.log.append(batch_of([b"torn" * 50]))
    store.folder.close()
    again = Store(store.path, store.config)
    assert (again.log.leader_epoch, values_in(again.log)) == (1, [b"v" * 50])


def test_a_sync_error_fails_the_log_for_good(store: Store, disk: FaultyDisk) -> None:
    store.log.append(batch_of([b"durable"], producer_id=1, sequence=0))
    store.sync()
    store.log.append(batch_of([b"lost"], producer_id=1, sequence=1))
    disk.set_faults(DiskFaults(sync_errors="*"))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.sync()
    disk.set_faults(DiskFaults())
    assert store.log.synced_offset == 1
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.sync()
    assert store.log.synced_offset == 1
    storage_error(store, 2)
    assert len(store.log.read(0, 1 << 20, 2)) == 1
    for offset in (1, 2):
        with pytest.raises(KafkaError, match=STORAGE_ERROR):
            store.log.read(offset, 1 << 20, 2)


def test_a_failed_log_leaves_no_marker_of_a_clean_stop(store: Store, disk: FaultyDisk) -> None:
    store.log.append(batch_of([b"lost"]))
    disk.set_faults(DiskFaults(sync_errors="*"))
    with pytest.raises(KafkaError, match=STORAGE_ERROR):
        store.sync()
    disk.set_faults(DiskFaults())
    again = store.restart()
    assert again.log.leader_epoch == 1
    assert again.log.failed is None


def test_a_ticket_covers_what_was_written_before_it_ran_and_nothing_later(
    tmp_path: Path,
) -> None:
    class AppendsMeanwhile(Disk):
        on_sync: Callable[[], object] = staticmethod(lambda: None)

        def sync(self, fd: int) -> None:
            self.on_sync()
            super().sync(fd)

    disk = AppendsMeanwhile()
    store = Store(tmp_path / "data", CONFIG, disk=disk)
    store.log.append(batch_of([b"a"]))
    ticket = store.log.unsynced()
    assert ticket is not None
    store.log.append(batch_of([b"b"]))
    disk.on_sync = lambda: store.log.append(batch_of([b"c"]))
    ticket.run()
    disk.on_sync = lambda: None
    store.log.synced(ticket)
    assert (store.log.synced_offset, store.log.end_offset) == (2, 3)
    store.sync()
    assert store.log.synced_offset == 3
    assert store.log.unsynced() is None


def test_a_ticket_does_not_cover_a_segment_that_began_after_it(store: Store) -> None:
    store.log.append(batch_of([b"a"]))
    ticket = store.log.unsynced()
    assert ticket is not None
    while len(list(store.log_folder.glob("*.log"))) == 1:
        store.log.append(batch_of([b"v" * 100]))
    ticket.run()
    store.log.synced(ticket)
    assert store.log.synced_offset == 1
    store.sync()
    assert store.log.synced_offset == store.log.end_offset


def test_a_ticket_syncs_rolled_segments_and_their_indexes(tmp_path: Path) -> None:
    disk = NotingDisk()
    store = Store(tmp_path / "data", LogConfig(segment_bytes=1000, index_interval_bytes=200), disk=disk)
    store.sync()
    for _ in range(30):
        store.log.append(batch_of([b"v" * 100]))
    disk.files.clear()
    store.sync()
    *rolled, live = sorted(path.stem for path in store.log_folder.glob("*.log"))
    assert len(rolled) > 3
    files = [f"{stem}{suffix}" for stem in rolled for suffix in (".log", ".index", ".timeindex")]
    assert sorted(disk.files) == sorted([*files, f"{live}.log"])
    assert store.log.unsynced() is None


def test_tickets_may_overlap(store: Store) -> None:
    store.log.append(batch_of([b"v" * 100]))
    first = store.log.unsynced()
    for _ in range(20):
        store.log.append(batch_of([b"v" * 100]))
    second = store.log.unsynced()
    assert first is not None
    assert second is not None
    second.run()
    store.log.synced(second)
    first.run()
    store.log.synced(first)
    assert store.log.synced_offset == 21
    assert store.log.unsynced() is None
