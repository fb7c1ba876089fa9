"""Power may be lost at any moment of a swap: each step is durable before the next one relies on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest

from oncestream.machine import path_of
from oncestream.storage.steps import DiskStep, run_here
from oncestream.testing.disk import FaultyDisk
from tests.storage.compacting import COMPACT, planned, put, survivors
from tests.storage.kit import Store

FOLDER = "sync of the folder"


class WatchedDisk(FaultyDisk):
    """Notes what is done to files, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        self.steps.append(f"rename {target.name}")

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.steps.append(f"remove {path.name}")

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.steps.append(f"sync {Path(path_of(fd)).name}")

    def sync_folder(self, folder: str | Path) -> None:
        super().sync_folder(folder)
        if Path(folder).name == "events-0":
            self.steps.append(FOLDER)

    def next_after(self, step: str) -> str:
        return self.steps[self.steps.index(step) + 1]

    def assert_order(self, *expected: str) -> None:
        position = 0
        for step in expected:
            assert step in self.steps[position:], (step, self.steps)
            position = self.steps.index(step, position) + 1


def test_a_swap_is_durable_before_what_it_replaces_is_removed(tmp_path: Path) -> None:
    watched = WatchedDisk()
    store = Store(tmp_path / "data", COMPACT, disk=watched)
    job = planned(store)
    watched.steps.clear()
    job.run()
    run_here(store.log.finish_compaction(job))
    log = f"{job.groups[0][0]:020d}.log"
    watched.assert_order(f"sync {log}.cleaned", f"rename {log}.swap", FOLDER, f"remove {log}")
    assert watched.next_after(f"rename {log}.swap") == FOLDER
    assert watched.next_after(f"rename {log}") == FOLDER


def test_a_swap_that_a_start_finishes_is_durable(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", COMPACT)
    job = planned(store)
    job.run()
    crash = store.killed()
    log = f"{job.groups[0][0]:020d}.log"
    os.replace(crash / "events-0" / f"{log}.cleaned", crash / "events-0" / f"{log}.swap")
    watched = WatchedDisk()
    Store(crash, COMPACT, store.clock, watched)
    assert watched.next_after(f"rename {log}") == FOLDER


@pytest.mark.parametrize("deleted", ["records", "topic"])
def test_what_is_deleted_between_two_steps_of_a_swap_stays_deleted(tmp_path: Path, deleted: str) -> None:
    """The steps wait for the disk on other threads; meanwhile the broker does what it is asked."""
    count = 1
    for moment in itertools.count():
        store = Store(tmp_path / f"{deleted}-{moment}", COMPACT)
        job = planned(store)
        job.run()
        old = store.log
        steps = old.finish_compaction(job)
        for number, step in enumerate(steps):
            if number == moment and deleted == "records":
                old.delete_before(30)
            elif number == moment:
                store.folder.delete_log(old)
                store.log = store.folder.open_log("events", 0, b"n" * 16, COMPACT)
            step.run()
            count = number + 1
        if moment == count:
            break
        assert old.retired or old.failed is None
        put(store, b"new", b"v")
        expected = [(store.log.start_offset, b"new", b"v")]
        assert survivors(store.log) == expected
        leftovers = [path.name for path in store.log_folder.iterdir() if "swap" in path.suffix]
        assert leftovers == []
        run_here(store.folder.checkpoint())
        if deleted == "records":
            assert survivors(store.reborn().log) == expected
    assert count >= 4


@pytest.mark.parametrize("end", ["restart", "reborn"])
def test_what_is_deleted_within_a_swap_that_never_ends_stays_deleted(tmp_path: Path, end: str) -> None:
    """A stop, or a kill, comes before the next step."""
    count = 1
    for moment in itertools.count():
        store = Store(tmp_path / f"{end}-{moment}", COMPACT)
        job = planned(store)
        job.run()
        steps = store.log.finish_compaction(job)
        for number, step in enumerate(steps):
            step.run()
            count = number + 1
            if number == moment:
                break
        store.log.delete_before(store.log.end_offset)
        cast("Generator[DiskStep, None, None]", steps).close()
        again = store.restart() if end == "restart" else store.reborn()
        assert (survivors(again.log), again.log.start_offset) == ([], store.log.end_offset)
        if moment == count:
            break
    assert count >= 4
