from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncestream.errors import DataFolderInUse, DataFolderUnusable
from oncestream.storage.config import LogConfig
from oncestream.storage.folder import DataFolder
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults, FaultyDisk
from tests.storage.kit import TOPIC_ID, Clock, Store, batch_of


def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(store: Store) -> None:
    with pytest.raises(DataFolderInUse) as caught:
        DataFolder.open(store.path, clock_ms=Clock())
    assert f"process {os.getpid()}" in str(caught.value)


def test_another_process_is_refused_too(store: Store) -> None:
    program = (
        "import sys; from pathlib import Path; from oncestream.storage.folder import DataFolder;"
        "DataFolder.open(Path(sys.argv[1]), clock_ms=lambda: 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(store.path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "DataFolderInUse" in done.stderr


def test_the_lock_is_free_after_close(store: Store) -> None:
    store.folder.close()
    DataFolder.open(store.path, clock_ms=Clock()).close()


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataFolderUnusable):
        DataFolder.open(tmp_path / "file" / "data", clock_ms=Clock())


def test_identity_is_made_once(store: Store) -> None:
    identity = store.folder.identity
    assert store.restart().folder.identity == identity
    assert len(identity.cluster_id) == 22


def test_partitions_on_disk_are_listed_with_their_topic_ids(store: Store) -> None:
    store.folder.open_log("a.b-c", 12, b"y" * 16, LogConfig())
    (store.path / "lost-3").mkdir()
    assert store.folder.partition_folders() == [
        ("a.b-c", 12, b"y" * 16),
        ("events", 0, TOPIC_ID),
        ("lost", 3, None),
    ]


def test_a_deleted_log_is_gone_and_its_name_free(store: Store) -> None:
    store.log.append(batch_of([b"old"]))
    store.log.delete_before(1)
    store.folder.delete_log(store.log)
    assert store.folder.partition_folders() == []
    assert not [path for path in store.path.iterdir() if "delete" in path.name]
    again = store.folder.open_log("events", 0, b"n" * 16, LogConfig())
    assert (again.start_offset, again.end_offset) == (0, 0)


def test_what_a_crash_left_of_a_deleted_log_is_removed_at_open(store: Store) -> None:
    leftover = store.path / f"events-7.{'0a' * 16}-delete"
    leftover.mkdir()
    (leftover / "file").touch()
    store.restart()
    assert not leftover.exists()


def test_an_unclaimed_folder_is_set_aside_and_not_listed(store: Store) -> None:
    (store.path / "lost-3").mkdir()
    aside = store.folder.set_aside("lost", 3)
    assert aside.name.startswith("lost-3.")
    assert aside.name.endswith("-stray")
    assert aside.exists()
    assert [topic for topic, _, _ in store.folder.partition_folders()] == ["events"]
    assert store.restart().path.joinpath(aside.name).exists()


def test_a_name_too_long_for_its_suffix_is_shortened(store: Store) -> None:
    name = "t" * 249
    log = store.folder.open_log(name, 0, TOPIC_ID, LogConfig())
    assert len(store.folder.set_aside(name, 0).name) <= 255
    assert log.topic == name


def test_checkpoints_are_in_kafkas_format(store: Store) -> None:
    for _ in range(3):
        store.log.append(batch_of([b"x"]))
    store.sync()
    store.log.delete_before(2)
    run_here(store.folder.checkpoint())
    assert (store.path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nevents 0 3\n"
    assert (store.path / "log-start-offset-checkpoint").read_text() == "0\n1\nevents 0 2\n"
    assert (store.log_folder / "leader-epoch-checkpoint").read_text() == "0\n1\n0 2\n"
    assert (
        store.log_folder / "partition.metadata"
    ).read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_logs_not_opened_this_time_keep_their_checkpoints(store: Store) -> None:
    store.log.append(batch_of([b"x"]))
    store.log.delete_before(1)
    store.folder.close()
    folder = DataFolder.open(store.path, clock_ms=store.clock)
    folder.open_log("other", 0, TOPIC_ID, LogConfig())
    run_here(folder.checkpoint())
    assert (store.path / "log-start-offset-checkpoint").read_text() == "0\n1\nevents 0 1\n"
    folder.close()


def test_damaged_checkpoints_cost_a_scan_and_nothing_else(store: Store) -> None:
    store.log.append(batch_of([b"x"]))
    store.folder.close()
    (store.path / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\nnonsense")
    (store.path / ".kafka_cleanshutdown").unlink()
    assert Store(store.path, store.config, store.clock).log.end_offset == 1


def test_a_thousand_batches_in_many_partitions_survive_with_few_open_files(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path / "data", clock_ms=Clock())
    logs = [folder.open_log("t", number, TOPIC_ID, LogConfig(segment_bytes=2000)) for number in range(40)]
    for log in logs:
        for _ in range(25):
            log.append(batch_of([b"v" * 100]))
    folder.close()
    folder = DataFolder.open(tmp_path / "data", clock_ms=Clock())
    ends = [folder.open_log("t", number, TOPIC_ID, LogConfig()).end_offset for number in range(40)]
    assert ends == [25] * 40
    folder.close()


def test_an_abandoned_folder_is_recovered_by_the_next_start(store: Store) -> None:
    store.log.append(batch_of([b"x"]))
    store.folder.abandon()
    again = Store(store.path, store.config, store.clock)
    assert (again.log.end_offset, again.log.leader_epoch) == (1, 1)


def test_a_new_log_does_not_inherit_what_is_on_record_about_a_deleted_namesake(store: Store) -> None:
    for _ in range(3):
        store.log.append(batch_of([b"x"]))
    store.log.delete_before(2)
    store.sync()
    run_here(store.folder.checkpoint())
    store.folder.delete_log(store.log)
    store.folder.open_log("events", 0, b"n" * 16, LogConfig()).append(batch_of([b"new"]))
    again = store.reborn()
    assert (again.log.start_offset, again.log.end_offset, again.log.failed) == (0, 1, None)


def test_a_log_not_opened_after_a_crash_is_still_recovered_later(store: Store) -> None:
    store.log.append(batch_of([b"x"]))
    store.folder.abandon()
    DataFolder.open(store.path, clock_ms=store.clock).close()
    assert Store(store.path, store.config, store.clock).log.leader_epoch == 1


def test_a_disk_that_fails_at_close_leaves_the_lock_free_and_no_clean_marker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    store = Store(tmp_path / "data", LogConfig(), disk=disk)
    store.log.append(batch_of([b"x"]))
    disk.set_faults(DiskFaults(sync_errors="*"))
    store.folder.close()
    assert "stop was not clean" in caplog.text
    assert store.log.failed is not None
    assert Store(store.path, LogConfig()).log.leader_epoch == 1


def test_logs_that_are_flushed_hold_no_files_open(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path, clock_ms=Clock(), open_files_max=8)
    logs = [folder.open_log("events", number, TOPIC_ID, LogConfig()) for number in range(40)]
    for log in logs:
        log.append(batch_of([b"v"]))
        ticket = log.unsynced()
        assert ticket is not None
        ticket.run()
        log.synced(ticket)
        del ticket
    held = [link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in _target_of(link)]
    assert len(held) <= 8 + 1  # and the lock
    folder.close()


def _target_of(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # the folder's own descriptor, while it was listed
        return ""
