"""Damage that whole batches follow: a torn write only where the machine has been started anew since."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from oncestream.storage.boot import FILE_NAME, BootMark
from oncestream.storage.checkpoints import RECOVERY_POINTS
from oncestream.storage.config import LogConfig
from oncestream.storage.disk import REAL_DISK
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults
from tests.storage.kit import NotingDisk, Store, batch_of, values_in

CONFIG = LogConfig()
VALUES = [b"%02d" % number * 50 for number in range(10)]


@pytest.fixture
def boot_id(tmp_path: Path) -> Path:
    path = tmp_path / "boot_id"
    path.write_text("first")
    return path


@pytest.fixture
def killed(tmp_path: Path, boot_id: Path) -> Path:
    """Ten batches, five of them below the recovery point."""
    store = Store(tmp_path / "data", CONFIG, boot_id=boot_id.read_bytes)
    store.folder.started()
    for value in VALUES[:5]:
        store.log.append(batch_of([value]))
    store.sync()
    run_here(store.folder.checkpoint())
    for value in VALUES[5:]:
        store.log.append(batch_of([value]))
    return store.killed()


def damage(folder: Path, number: int) -> None:
    """In the middle of a batch."""
    path = folder / "events-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    start = len(batch_of(VALUES[:1])) * number
    content[start + 70 : start + 80] = bytes(10)
    path.write_bytes(content)


def test_after_a_loss_of_power_the_log_ends_before_the_first_damaged_batch(
    killed: Path, boot_id: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(killed, 7)
    boot_id.write_text("second")
    with caplog.at_level(logging.WARNING, "oncestream.storage"):
        store = Store(killed, CONFIG, boot_id=boot_id.read_bytes)
    assert values_in(store.log) == VALUES[:7]
    assert store.log.append(batch_of([b"more"])).base_offset == 7
    assert "cut" in caplog.text
    assert "after offset 7" in caplog.text


def test_a_start_that_did_not_come_to_its_end_does_not_hide_the_loss(killed: Path, boot_id: Path) -> None:
    damage(killed, 7)
    boot_id.write_text("second")
    folder = Store(killed, CONFIG, boot_id=boot_id.read_bytes).folder
    folder.abandon()  # another log may have the same yet
    damage(killed, 5)
    assert values_in(Store(killed, CONFIG, boot_id=boot_id.read_bytes).log) == VALUES[:5]


def test_files_that_are_given_up_do_not_come_back_under_the_names_of_new_ones(
    tmp_path: Path, boot_id: Path
) -> None:
    small = LogConfig(segment_bytes=400)
    store = Store(tmp_path / "data", small, boot_id=boot_id.read_bytes)
    store.folder.started()
    for value in VALUES:
        store.log.append(batch_of([value]))
    killed = store.killed()
    paths = sorted((killed / "events-0").glob("*.log"))
    paths[1].write_bytes(b"")
    boot_id.write_text("second")
    disk = NotingDisk()
    disk.set_faults(DiskFaults(room_bytes=0, full_paths="*/leader-epoch-checkpoint*"))
    recovered = Store(killed, small, disk=disk, boot_id=boot_id.read_bytes)
    assert sorted((killed / "events-0").glob("*.log")) == paths[:2]
    assert "events-0" in disk.folders
    assert values_in(recovered.log) == VALUES[: int(paths[1].stem)]


@pytest.mark.parametrize("started_again", ["not", "since the loss"])
def test_a_broker_that_was_only_killed_loses_nothing_so_it_is_damage(
    killed: Path, boot_id: Path, started_again: str
) -> None:
    if started_again != "not":
        boot_id.write_text("second")
        store = Store(killed, CONFIG, boot_id=boot_id.read_bytes)
        store.folder.started()
        store.folder.abandon()
    damage(killed, 7)
    log = Store(killed, CONFIG, boot_id=boot_id.read_bytes).log
    assert log.failed is not None
    assert values_in(log) == VALUES[:7]


def test_below_the_recovery_point_it_is_damage(killed: Path, boot_id: Path) -> None:
    damage(killed, 3)
    boot_id.write_text("second")
    log = Store(killed, CONFIG, boot_id=boot_id.read_bytes).log
    assert log.failed is not None
    assert values_in(log) == VALUES[:3]


@pytest.mark.parametrize("content", [None, b"", b"0\n5\nevents 0 5\n"])
def test_without_recovery_points_it_is_damage(killed: Path, boot_id: Path, content: bytes | None) -> None:
    damage(killed, 7)
    boot_id.write_text("second")
    path = killed / RECOVERY_POINTS
    path.unlink() if content is None else path.write_bytes(content)
    log = Store(killed, CONFIG, boot_id=boot_id.read_bytes).log
    assert log.failed is not None
    assert values_in(log) == VALUES[:7]


def test_a_folder_without_a_mark_and_a_system_without_boot_ids_are_not_another_start(
    killed: Path, boot_id: Path
) -> None:
    boot_id.write_text("second")
    assert BootMark(killed, REAL_DISK, boot_id.read_bytes).is_another
    mark = BootMark(killed, REAL_DISK, lambda: None)
    assert not mark.is_another
    mark.set()
    assert (killed / FILE_NAME).read_bytes() == b"first"
    (killed / FILE_NAME).unlink()
    assert not BootMark(killed, REAL_DISK, boot_id.read_bytes).is_another
