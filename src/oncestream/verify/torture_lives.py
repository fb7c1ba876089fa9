"""A tortured program and its lives: killed, frozen, replaced while it is frozen, started again when it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from oncestream.verify.torture_clients import LIFE_OVER
from oncestream.verify.torture_numbers import LIVES_MAX

RESTART_PAUSE_S: Final = 0.3
OLD_LIFE_S: Final = 15.0
TAIL_CHARS: Final = 1500

Command = Callable[[int], list[str]]  # of a life, what comes behind `python -m` and before our process id


class _Old(NamedTuple):
    process: subprocess.Popen[bytes]
    until: float


class Lives:
    """All lives of one program; each is a process group of its own, so that Spark dies with all its parts."""

    def __init__(self, name: str, command: Command, log: Path) -> None:
        self.name = name
        self.count = 0
        self.ended_alone = 0
        self.problems: list[str] = []
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._old: list[_Old] = []
        self._start_at = 0.0

    def start(self) -> None:
        assert self.count < LIVES_MAX, self.name
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-m", *self._command(self.count), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.count += 1

    def look(self) -> None:
        """Starts it again where it has ended; an old life that goes on beside the new one is stopped in time."""
        if self._process is not None and self._process.poll() is not None:
            self._note_end(self._process)
            self._process = None
            self._start_at = time.monotonic() + RESTART_PAUSE_S
        if self._process is None and time.monotonic() >= self._start_at:
            self.start()
        for old in list(self._old):
            if old.process.poll() is not None:
                self._note_end(old.process)
                self._old.remove(old)
            elif time.monotonic() > old.until:
                _signal(old.process, signal.SIGKILL)

    def kill(self) -> None:
        if self._process is not None:
            _signal(self._process, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def freeze(self) -> subprocess.Popen[bytes] | None:
        """Answers what `thaw` takes."""
        if self._process is not None:
            _signal(self._process, signal.SIGSTOP)
        return self._process

    def thaw(self, process: subprocess.Popen[bytes]) -> None:
        _signal(process, signal.SIGCONT)

    def replace(self) -> None:
        """A new life begins while the old one is frozen, and does not know of it when it wakes up."""
        if self._process is not None:
            self._old.append(_Old(self._process, time.monotonic() + OLD_LIFE_S))
        self.start()

    def finish(self, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL where that does not help."""
        alive = [old.process for old in self._old] + ([] if self._process is None else [self._process])
        self._old, self._process = [], None
        for process in alive:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + timeout_s
        for process in alive:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
                self._note_end(process)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()

    def end(self) -> None:
        """SIGKILL for all of it."""
        for process in [*(old.process for old in self._old), self._process]:
            if process is not None:
                _signal(process, signal.SIGKILL)
                process.wait()
        self._old, self._process = [], None

    def _note_end(self, process: subprocess.Popen[bytes]) -> None:
        status = process.returncode
        self.ended_alone += status == LIFE_OVER
        if status not in {0, LIFE_OVER, -signal.SIGKILL, -signal.SIGTERM}:
            tail = self._log.read_text(errors="replace")[-TAIL_CHARS:].strip()
            self.problems.append(f"{self.name} crashed with exit status {status}: {tail}")


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # how macOS refuses where all have ended
        os.killpg(process.pid, number)
