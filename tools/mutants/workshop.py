"""A copy of the tree in which one mutant after the other meets its tests."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from tools.mutants.mutations import Mutation

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = ("src", "tests", "tools", "pyproject.toml", "README.md")
PYTEST: Final = (
    sys.executable,
    "-m",
    "pytest",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "tools.suite.mutant",
)


class Verdict(StrEnum):
    KILLED = "killed"
    SURVIVED = "survived"
    TIMED_OUT = "timed out"


class Workshop:
    """Nothing is written outside its folder, and no process that its tests start outlives a run."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._tree = folder / "tree"
        self._scratch = folder / "tmp"
        self._output = folder / "output"
        self._versions = itertools.count(1)
        self._scratch.mkdir(parents=True)
        for part in PARTS:
            if (root / part).is_dir():
                shutil.copytree(root / part, self._tree / part)
            elif (root / part).exists():
                shutil.copy2(root / part, self._tree / part)

    @property
    def output(self) -> str:
        """What the last run of tests printed."""
        return self._output.read_text(errors="replace")

    def try_out(
        self, mutation: Mutation, tests: Sequence[str], seconds_file: Path, limit_s: float
    ) -> Verdict:
        path = self._tree / mutation.path
        original = path.read_bytes()
        try:
            self._write(path, mutation.apply(original))
            status = self.run_tests(tests, seconds_file, limit_s)
        finally:
            self._write(path, original)
        if status is None:
            return Verdict.TIMED_OUT
        return Verdict.KILLED if status else Verdict.SURVIVED

    def run_tests(self, tests: Sequence[str], seconds_file: Path, limit_s: float) -> int | None:
        """The status of pytest on the tree as it is now; None if it did not end in time."""
        command = [
            *PYTEST,
            f"--mutant-seconds={seconds_file}",
            f"--basetemp={self._scratch / 'pytest'}",
            *tests,
        ]
        with self._output.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._tree,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                self.end_processes()
                process.wait()

    def end_processes(self) -> None:
        """Ends what the tests started, in whatever session: all of it has this workshop's TMPDIR."""
        mark = f"TMPDIR={self._scratch}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    def _write(self, path: Path, source: bytes) -> None:
        """No two versions have the same time: Python knows its compiled files by time and length."""
        path.write_bytes(source)
        version = next(self._versions)
        os.utime(path, (version, version))

    def _environment(self) -> dict[str, str]:
        """Child processes and workers of Spark import from the copy too; its own plugin comes from the project."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        path = os.pathsep.join(map(str, (self._tree / "src", self._tree, ROOT)))
        java = f"-Djava.io.tmpdir={self._scratch}"
        return inherited | {"PYTHONPATH": path, "TMPDIR": str(self._scratch), "JAVA_TOOL_OPTIONS": java}
