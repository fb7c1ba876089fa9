"""Power may be lost at any moment of a swap: each step is durable before the next one relies on it."""

from __future__ import annotations

import os
from pathlib import Path

from oncestream.machine import path_of
from oncestream.testing.disk import FaultyDisk
from tests.storage.compacting import COMPACT, planned
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
    store.log.finish_compaction(job)
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
