"""The command line as a user has it: a process, its two streams, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.broker.kit import is_readable

READY: Final = "oncestream broker ready on "
TIMEOUT_S: Final = 30.0


class Ended(NamedTuple):
    exit_code: int
    out: str
    err: str


class Command:
    """`oncestream ...` in a process of its own, without settings from this one's environment."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ONCESTREAM_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "oncestream.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, **(environment or {})},
        )
        self._first_line = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> str:
        """The address in the ready line."""
        assert self._process.stdout is not None
        readable = is_readable(self._process.stdout, TIMEOUT_S)
        assert readable, "no ready line came"
        self._first_line = self._process.stdout.readline()
        assert self._first_line.startswith(READY), self.end()
        return self._first_line.removeprefix(READY).strip()

    def read_line(self) -> str:
        """The next line; the test's own timeout is the deadline, since lines may wait in this side's buffer."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> Ended:
        """Waits for the end; all that was printed."""
        out, err = self._process.communicate(timeout=TIMEOUT_S)
        return Ended(self._process.returncode, self._first_line + out, err)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=TIMEOUT_S)


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
    began = time.monotonic()
    ended = Command(*arguments, environment=environment).end()
    assert time.monotonic() - began < TIMEOUT_S
    return ended
