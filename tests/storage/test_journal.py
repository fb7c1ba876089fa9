"""The journal alone, and what a log gets back from it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oncestream.machine import path_of
from oncestream.storage.config import LogConfig
from oncestream.storage.journal import (
    BATCH_BYTES_MAX,
    ENTRIES_PER_WRITE_MAX,
    FILE_NAMES,
    Journal,
    LogKey,
    read_journal,
)
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults, FaultyDisk
from tests.storage.kit import TOPIC_ID, NotingDisk, Store, batch_of, values_in

KEY = LogKey(TOPIC_ID, 0)
HEAD_BYTES = 28
CONFIG = LogConfig(segment_bytes=100_000, index_interval_bytes=150)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return journaled(tmp_path / "data")


def journaled(path: Path, disk: FaultyDisk | None = None) -> Store:
    store = Store(path, CONFIG, disk=disk or FaultyDisk())
    store.folder.journal.start({TOPIC_ID}, active=True)
    store.sync()  # a new log's names: before that the journal takes nothing
    return store


def fill(store: Store, count: int, first: int = 0) -> list[bytes]:
    values = [b"%03d" % number * 20 for number in range(first, first + count)]
    for number, value in enumerate(values, first):
        store.log.append(batch_of([value], producer_id=5, sequence=number))
    return values


def flush(store: Store) -> None:
    journal = store.folder.journal
    flush = journal.flush([store.log.durability])
    flush.run()
    assert flush.error is None
    journal.synced(flush)
    store.log.journaled(flush.ends[0])


def journaled_offsets(path: Path) -> list[int]:
    return [header.base_offset for header, _ in read_journal([path])[KEY]]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "events-0").glob("*.log"))


def test_a_flush_of_the_journal_makes_durable_but_does_not_settle(store: Store) -> None:
    fill(store, 3)
    assert store.log.in_journal
    flush(store)
    assert (store.log.synced_offset, store.log.settled_offset) == (3, 0)
    store.sync()
    assert (store.log.synced_offset, store.log.settled_offset) == (3, 3)


def test_the_recovery_point_is_what_the_files_have(store: Store) -> None:
    fill(store, 3)
    flush(store)
    run_here(store.folder.checkpoint())
    assert (store.path / "recovery-point-offset-checkpoint").read_text().splitlines()[2:] == ["events 0 0"]


@pytest.mark.parametrize("kept_bytes", [0, 1, 100, 500])
def test_what_the_file_has_lost_comes_from_the_journal(store: Store, kept_bytes: int) -> None:
    values = fill(store, 30)
    flush(store)
    killed = store.killed()
    (path,) = segments(killed)
    path.write_bytes(path.read_bytes()[:kept_bytes])
    restored = Store(killed, CONFIG, store.clock)
    assert values_in(restored.log) == values
    assert restored.log.synced_offset == restored.log.settled_offset == 30
    assert restored.log.leader_epoch == store.log.leader_epoch + 1
    assert restored.log.append(batch_of([b"again"], producer_id=5, sequence=29)).duplicate
    assert restored.log.append(batch_of([b"more"], producer_id=5, sequence=30)).base_offset == 30
    assert values_in(restored.reborn().log) == [*values, b"more"]


def test_a_hole_in_the_middle_that_the_journal_fills_is_no_damage(store: Store) -> None:
    values = fill(store, 30)
    flush(store)
    killed = store.killed()
    (path,) = segments(killed)
    content = bytearray(path.read_bytes())
    content[1000:1500] = bytes(500)
    path.write_bytes(content)
    restored = Store(killed, CONFIG, store.clock)
    assert restored.log.failed is None
    assert values_in(restored.log) == values


def test_the_first_batch_of_a_file_is_flushed_with_the_files_before_it(store: Store) -> None:
    values = fill(store, 5)
    flush(store)
    store.log.config = LogConfig(segment_bytes=1000)
    fill(store, 10, first=5)
    assert len(segments(store.path)) > 1
    assert not store.log.in_journal
    flush(store)
    assert store.log.synced_offset == 5
    killed = store.killed()
    path = segments(killed)[0]
    path.write_bytes(path.read_bytes()[: -len(batch_of(values[:1], producer_id=5))])
    torn = Store(killed, CONFIG, store.clock)
    assert torn.log.failed is None
    assert values_in(torn.log)[:5] == values
    store.sync()
    fill(store, 1, first=15)
    assert store.log.in_journal


def test_damage_below_the_recovery_point_stays_damage(store: Store) -> None:
    fill(store, 5)
    flush(store)
    store.sync()
    run_here(store.folder.checkpoint())
    fill(store, 5, first=5)
    flush(store)
    killed = store.killed()
    path = segments(killed)[0]
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(content)
    restored = Store(killed, CONFIG, store.clock)
    assert restored.log.failed is not None
    restored.folder.journal.start({TOPIC_ID}, active=True)
    assert not restored.folder.journal.active
    assert (killed / FILE_NAMES[1]).exists()


def test_markers_and_aborted_transactions_come_back(store: Store) -> None:
    store.log.append(batch_of([b"no"], producer_id=7, transactional=True), internal=True)
    store.log.append_marker(7, 0, 0, commit=False)
    store.log.append(batch_of([b"open"], producer_id=8, transactional=True), internal=True)
    flush(store)
    killed = store.killed()
    for path in segments(killed):
        path.write_bytes(b"")
    restored = Store(killed, CONFIG, store.clock)
    assert [(each.producer_id, each.first_offset) for each in restored.log.aborted(0, 3)] == [(7, 0)]
    assert restored.log.first_unstable_offset == 2


def test_of_a_torn_journal_the_whole_entries_count(store: Store, tmp_path: Path) -> None:
    values = fill(store, 5)
    flush(store)
    killed = store.killed()
    for path in segments(killed):
        path.write_bytes(b"")
    content = (killed / FILE_NAMES[1]).read_bytes()
    entry = (len(content) - HEAD_BYTES) // 5
    for cut in range(len(content) - 2 * entry, len(content) + 1):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(killed, copy)
        (copy / FILE_NAMES[1]).write_bytes(content[:cut].ljust(len(content), b"\xff"))
        restored = Store(copy, CONFIG, store.clock)
        assert values_in(restored.log) == values[: (cut - HEAD_BYTES) // entry]
        restored.folder.abandon()
        shutil.rmtree(copy)


@pytest.mark.parametrize("position", range(HEAD_BYTES))
def test_a_damaged_head_makes_a_file_empty(store: Store, position: int) -> None:
    fill(store, 2)
    path = store.path / FILE_NAMES[1]
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert read_journal([path]) == {}


def test_files_take_turns_and_what_a_turn_left_behind_does_not_count(store: Store) -> None:
    journal, written = store.folder.journal, []
    for turn in range(6):
        written.append(fill(store, 5 if turn < 5 else 2, first=5 * turn))
        flush(store)
        store.sync()
        assert journal.switch() is True
        assert journal.switch() is False  # the other one is not free yet
        journal.freed()
    written.append(fill(store, 1, first=27))
    found = read_journal([store.path / name for name in FILE_NAMES])[KEY]
    sizes = [len(batch_of([value], producer_id=5)) for values in written[-2:] for value in values]
    assert [len(batch) for _, batch in found] == sizes
    assert [header.base_offset for header, _ in found] == [25, 26, 27]


def test_a_full_journal_asks_for_the_other_file(store: Store) -> None:
    journal, full = store.folder.journal, []
    journal.full_bytes = 1000
    for count in (1, 10, 0):
        fill(store, count, first=store.log.end_offset)
        full.append(journal.is_full)
        if full[-1]:
            journal.switch()
            full.append(journal.is_full)
    assert full == [False, True, False, False]


def test_what_comes_while_a_file_is_synced_is_synced_again_although_its_turn_ends_meanwhile(
    tmp_path: Path,
) -> None:
    class BusyDisk(FaultyDisk):
        def __init__(self) -> None:
            super().__init__()
            self.synced: list[str] = []
            self.meanwhile: list[Callable[[], None]] = []

        def sync(self, fd: int) -> None:
            super().sync(fd)
            self.synced.append(Path(path_of(fd)).name)
            if self.meanwhile:
                self.meanwhile.pop()()

    disk = BusyDisk()
    store = journaled(tmp_path / "data", disk)
    fill(store, 1)

    def append_and_switch() -> None:
        fill(store, 1, first=1)
        assert store.folder.journal.switch()

    disk.meanwhile.append(append_and_switch)
    flush(store)
    assert store.log.synced_offset == 1
    disk.synced.clear()
    flush(store)
    assert store.log.synced_offset == 2
    assert disk.synced == [FILE_NAMES[1], FILE_NAMES[0]]
    disk.synced.clear()
    flush(store)
    assert disk.synced == [FILE_NAMES[0]]


def test_a_large_batch_is_flushed_where_it_lies(store: Store) -> None:
    fill(store, 1)
    store.log.config = LogConfig()
    store.log.append(batch_of([b"x" * BATCH_BYTES_MAX]))
    store.log.append(batch_of([b"small"]))
    assert not store.log.in_journal
    flush(store)
    assert store.log.synced_offset == 0
    store.sync()
    assert (store.log.synced_offset, store.log.in_journal) == (3, True)


def test_what_does_not_follow_the_end_of_its_log_is_not_used(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.log.config = LogConfig()
    store.log.append(batch_of([b"x" * BATCH_BYTES_MAX]))  # never synced
    store.log.append(batch_of([b"small"]))
    killed = store.killed()
    for path in segments(killed):
        path.write_bytes(b"")
    with caplog.at_level(logging.WARNING, "oncestream.storage"):
        restored = Store(killed, CONFIG, store.clock)
    assert values_in(restored.log) == []
    assert "the journal goes on at offset 1, the log ends at 0" in caplog.text


def test_what_is_held_is_written_together_and_not_durable_before(tmp_path: Path) -> None:
    class CountingDisk(FaultyDisk):
        writes = 0

        def write_parts(self, fd: int, parts: Sequence[memoryview | bytes], position: int) -> int:
            self.writes += 1
            return super().write_parts(fd, parts, position)

    disk = CountingDisk()
    store = journaled(tmp_path / "data", disk)
    journal = store.folder.journal
    journal.hold()
    values = fill(store, 3)
    flush(store)
    assert (disk.writes, store.log.end_offset, store.log.synced_offset) == (0, 3, 0)
    journal.let_go()
    flush(store)
    assert (disk.writes, store.log.synced_offset) == (1, 3)
    fill(store, 1, first=3)
    assert disk.writes == 2
    killed = store.killed()
    for path in segments(killed):
        path.write_bytes(b"")
    assert values_in(Store(killed, CONFIG, store.clock).log)[:3] == values


def test_what_is_held_belongs_to_the_turn_in_which_it_came(store: Store) -> None:
    fill(store, 1)
    store.folder.journal.hold()
    fill(store, 1, first=1)
    assert store.folder.journal.switch()
    fill(store, 1, first=2)
    store.folder.journal.let_go()
    for name, offsets in zip(FILE_NAMES, ([2], [0, 1]), strict=True):
        assert journaled_offsets(store.path / name) == offsets


def test_more_is_held_than_one_write_takes(store: Store) -> None:
    store.folder.journal.hold()
    fill(store, ENTRIES_PER_WRITE_MAX + 1)
    store.folder.journal.let_go()
    assert len(read_journal([store.path / FILE_NAMES[1]])[KEY]) == ENTRIES_PER_WRITE_MAX + 1


def test_of_what_was_held_that_much_is_taken_as_there_is_room_for(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = journaled(tmp_path / "data", disk)
    fill(store, 1)
    path = store.path / FILE_NAMES[1]
    entry_bytes = path.stat().st_size - HEAD_BYTES
    store.folder.journal.hold()
    fill(store, 4, first=1)
    disk.set_faults(DiskFaults(room_bytes=entry_bytes * 5 // 2, full_paths="*/.journal-*"))
    store.folder.journal.let_go()
    disk.set_faults(DiskFaults())
    assert (store.log.durability.journal_end, store.log.in_journal) == (3, False)
    fill(store, 1, first=5)  # takes the place of what was torn
    assert journaled_offsets(path) == [0, 1, 2, 5]


def test_what_was_held_and_finds_no_room_is_left_to_the_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = journaled(tmp_path / "data", disk)
    fill(store, 1)
    store.folder.journal.hold()
    fill(store, 2, first=1)
    disk.set_faults(DiskFaults(room_bytes=0, full_paths="*/.journal-*"))
    store.folder.journal.let_go()
    disk.set_faults(DiskFaults())
    assert not store.log.in_journal
    flush(store)
    assert store.log.synced_offset == 0
    store.sync()
    assert (store.log.synced_offset, store.log.in_journal) == (3, True)


def test_a_small_batch_that_fails_late_does_not_hide_the_large_one_after_it(tmp_path: Path) -> None:
    """What the journal does not have is flushed where it lies, whichever the journal tells of last."""
    disk = FaultyDisk()
    store = journaled(tmp_path / "data", disk)
    store.log.config = LogConfig()
    fill(store, 1)
    store.folder.journal.hold()
    fill(store, 1, first=1)
    store.sync()
    store.log.append(batch_of([b"x" * BATCH_BYTES_MAX]))
    disk.set_faults(DiskFaults(room_bytes=0, full_paths="*/.journal-*"))
    store.folder.journal.let_go()
    disk.set_faults(DiskFaults())
    assert not store.log.in_journal
    fill(store, 1, first=2)
    flush(store)
    assert store.log.synced_offset == 2
    store.sync()
    assert store.log.synced_offset == 4


def test_a_journal_without_room_leaves_the_work_to_the_files(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = journaled(tmp_path / "data", disk)
    fill(store, 1)
    journaled_yet = []
    for faults in (DiskFaults(room_bytes=0, full_paths="*/.journal-*"), DiskFaults()):
        disk.set_faults(faults)
        fill(store, 1, first=store.log.end_offset)
        journaled_yet.append(store.log.in_journal)
    store.sync()
    journaled_yet.append(store.log.in_journal)
    assert journaled_yet == [False, False, True]
    assert journaled_offsets(store.path / FILE_NAMES[1]) == [0, 2]


def test_a_file_that_was_made_but_had_no_room_for_its_head_gets_its_name_synced(tmp_path: Path) -> None:
    disk = NotingDisk()
    store = journaled(tmp_path / "data", disk)
    disk.set_faults(DiskFaults(room_bytes=10, full_paths="*/.journal-*"))
    fill(store, 1)
    assert (store.path / FILE_NAMES[1]).exists()
    disk.set_faults(DiskFaults())
    store.sync()
    fill(store, 1, first=1)
    disk.folders.clear()
    flush(store)
    assert disk.folders == ["data"]


def test_a_clean_stop_leaves_no_journal(store: Store) -> None:
    values = fill(store, 3)
    flush(store)
    restarted = store.restart()
    assert not any((store.path / name).exists() for name in FILE_NAMES)
    assert values_in(restarted.log) == values


def test_entries_of_a_deleted_topic_are_forgotten(store: Store) -> None:
    fill(store, 3)
    flush(store)
    killed = store.killed()
    journal = Journal(killed, store.disk)
    journal.start({b"another topic id"}, active=True)
    assert journal.active
    assert not any((killed / name).exists() for name in FILE_NAMES)
