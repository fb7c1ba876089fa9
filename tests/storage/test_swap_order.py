"""Power may be lost at any moment of a swap: each step is durable before the next one relies on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncestream.testing.disk import FaultyDisk, path_of
from tests.storage.compacting import COMPACT, put, roll
from tests.storage.kit import Store

FOLDER = "sync of the folder"


class Watched:
    """What is done to files, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        rename, unlink = os.replace, Path.unlink

        def replace(source: str | Path, target: str | Path) -> None:
            rename(source, target)
            self.steps.append(f"rename {Path(target).name}")

        def remove(path: Path, missing_ok: bool = False) -> None:
            unlink(path, missing_ok)
            self.steps.append(f"remove {path.name}")

        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(Path, "unlink", remove)

    def disk(self) -> FaultyDisk:
        steps = self.steps

        class Disk(FaultyDisk):
            def sync(self, fd: int) -> None:
                super().sync(fd)
                steps.append(f"sync {Path(path_of(fd)).name}")

            def sync_folder(self, folder: str | Path) -> None:
                super().sync_folder(folder)
                if Path(folder).name == "events-0":
                    steps.append(FOLDER)

        return Disk()

    def next_after(self, step: str) -> str:
        return self.steps[self.steps.index(step) + 1]

    def assert_order(self, *expected: str) -> None:
        position = 0
        for step in expected:
            assert step in self.steps[position:], (step, self.steps)
            position = self.steps.index(step, position) + 1


def test_a_swap_is_durable_before_what_it_replaces_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    store = Store(tmp_path / "data", COMPACT, disk=watched.disk())
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    watched.steps.clear()
    job.run()
    store.log.finish_compaction(job)
    log = f"{job.groups[0][0]:020d}.log"
    watched.assert_order(f"sync {log}.cleaned", f"rename {log}.swap", FOLDER, f"remove {log}")
    assert watched.next_after(f"rename {log}.swap") == FOLDER
    assert watched.next_after(f"rename {log}") == FOLDER


def test_a_swap_that_a_start_finishes_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "data", COMPACT)
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    job.run()
    crash = store.killed()
    log = f"{job.groups[0][0]:020d}.log"
    os.replace(crash / "events-0" / f"{log}.cleaned", crash / "events-0" / f"{log}.swap")
    watched = Watched(monkeypatch)
    Store(crash, COMPACT, store.clock, watched.disk())
    assert watched.next_after(f"rename {log}") == FOLDER
