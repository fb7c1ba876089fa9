"""Runs the pipeline as a process, kills it twice while it writes, starts it again, and notes what was visible."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.demo.files import File
from examples.demo.plot import Kill, Point
from examples.demo.topics import Position, Watcher, committed_positions
from oncestream.machine import children_of

PIPELINE_FILE: Final = Path(__file__).with_name("files_with_transactions.py")
KILL_SHARES: Final = (0.25, 0.6)  # of all rows, visible before the next kill
RUN_S_MAX: Final = 300.0
SETTLE_S_MAX: Final = 15.0


@dataclass(slots=True)
class Story:
    """What happened, second by second."""

    points: list[Point] = field(default_factory=lambda: [Point(0.0, 0)])
    kills: list[Kill] = field(default_factory=list)
    exit_code: int | None = None
    written: int = 0  # rows, those of transactions that never committed included

    @property
    def visible(self) -> int:
        return self.points[-1].rows


class PipelineRun:
    """`oncestream pipeline run` in a process of its own; what it says goes to a file."""

    def __init__(self, servers: str, checkpoint: Path, log: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "oncestream.cli.main",
            "pipeline",
            "run",
            str(PIPELINE_FILE),
            "--once",
        ]
        command += ["--bootstrap", servers, "--checkpoint", str(checkpoint)]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def kill(self) -> int:
        """SIGKILL to the driver, its JVM and its Python workers at once; returns how many there were."""
        if self.exit_code is not None:
            return 0
        # First the driver and its JVM stand still, so that nothing changes while their workers are found:
        # these are in groups of their own.
        os.killpg(self._process.pid, signal.SIGSTOP)
        family = list(_family(self._process.pid))
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        return len(family)


def _family(pid: int) -> Iterator[int]:
    """A process and all that it started, and they started."""
    yield pid
    for child in children_of(pid):
        yield from _family(child)


@dataclass(slots=True)
class Crashes:
    """The whole story: run, kill, run, kill, run to the end."""

    servers: str
    checkpoint: Path
    logs: Path
    stands: Mapping[Position, File]
    console: Console
    story: Story = field(default_factory=Story)
    _begun: float = 0.0

    def run(self) -> Story:
        """Returns when the last run ended by itself, or when a run ended that should have been killed."""
        expected = rows_before(self.stands, None)
        self._begun = time.monotonic()
        with closing(Watcher(self.servers)) as watcher, _progress(self.console) as progress:
            bar = progress.add_task("rows visible", total=expected)

            def show() -> None:
                self._note(watcher)
                progress.update(bar, completed=watcher.visible, description=self._state())

            for share in KILL_SHARES:
                if not self._run_and_kill(watcher, round(expected * share), show):
                    return self.story
            self._run_to_the_end(watcher, show)
        return self.story

    def _run_and_kill(self, watcher: Watcher, rows_min: int, show: Callable[[], None]) -> bool:
        """Kills it when so many rows are visible and others are written but not committed yet."""
        run = self._start()
        try:
            # All that is written is visible; what comes after that is of a transaction that is open.
            reached = self._looked_until(
                lambda: watcher.visible >= rows_min and not watcher.uncommitted, watcher, run, show
            ) and self._looked_until(lambda: watcher.uncommitted > 0, watcher, run, show)
        finally:
            processes = run.kill()
        if not reached:
            return False
        self._settle(watcher, show)
        kill = self.story.kills[-1]
        self.console.print(
            f"SIGKILL to all {processes} processes of the pipeline: {kill.visible:,} rows visible,"
            f" {kill.uncommitted:,} more written but not committed"
        )
        return True

    def _looked_until(
        self, done: Callable[[], bool], watcher: Watcher, run: PipelineRun, show: Callable[[], None]
    ) -> bool:
        """False where the run ended first."""
        while not done():
            watcher.look()
            show()
            if self._is_over(run):
                return False
        return True

    def _settle(self, watcher: Watcher, show: Callable[[], None]) -> None:
        """What is visible after the kill, and what the committed offsets say must be."""
        at_s = time.monotonic() - self._begun
        deadline = time.monotonic() + SETTLE_S_MAX
        by_offsets = -1
        while watcher.visible != by_offsets and time.monotonic() < deadline:
            by_offsets = rows_before(self.stands, committed_positions(self.servers))
            watcher.catch_up()
            show()
        self.story.kills.append(Kill(at_s, watcher.visible, by_offsets, watcher.abandon()))

    def _run_to_the_end(self, watcher: Watcher, show: Callable[[], None]) -> None:
        run = self._start()
        try:
            self._looked_until(lambda: False, watcher, run, show)
        finally:
            run.kill()
        deadline = time.monotonic() + SETTLE_S_MAX
        while watcher.visible < rows_before(self.stands, None) and time.monotonic() < deadline:
            watcher.look()
            show()

    def _start(self) -> PipelineRun:
        return PipelineRun(self.servers, self.checkpoint, self.logs / f"run-{len(self.story.kills) + 1}.log")

    def _is_over(self, run: PipelineRun) -> bool:
        if time.monotonic() - self._begun > RUN_S_MAX:
            raise TimeoutError(
                f"the pipeline takes more than {RUN_S_MAX:.0f} s; its words are in {self.logs}"
            )
        self.story.exit_code = run.exit_code
        return self.story.exit_code is not None

    def _note(self, watcher: Watcher) -> None:
        self.story.written = watcher.written
        if watcher.visible != self.story.visible:
            self.story.points.append(Point(time.monotonic() - self._begun, watcher.visible))

    def _state(self) -> str:
        kills = len(self.story.kills)
        return f"rows visible, run {kills + 1}, killed {kills} of {len(KILL_SHARES)} times"


def rows_before(stands: Mapping[Position, File], ends: Mapping[int, int] | None) -> int:
    """The rows of all files whose URL stands before these offsets, each file once; None: of all files."""
    files = {
        file.path: len(file.rows)
        for at, file in stands.items()
        if ends is None or at.offset < ends[at.partition]
    }
    return sum(files.values())


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)
