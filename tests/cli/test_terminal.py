"""At a terminal: questions before what destroys, passwords that are asked for and not shown."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.in_process import Cli

TIMEOUT_S = 60


class Terminal:
    """`oncestream` in a process whose standard streams are one terminal."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self.shown = ""
        self._pid, self._door = pty.fork()
        if self._pid == 0:
            command = [sys.executable, "-m", "oncestream.cli.main", *arguments]
            os.execve(sys.executable, command, {**cli.environment, "COLUMNS": "200"})

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self._read()

    def type(self, text: str) -> None:
        os.write(self._door, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def close(self) -> None:
        os.close(self._door)
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it has ended, as it should

    def _read(self) -> bool:
        readable, _, _ = select.select([self._door], [], [], TIMEOUT_S)
        assert readable, self.shown
        try:
            piece = os.read(self._door, 65_536)
        except OSError:  # how Linux tells the end of a terminal
            return False
        self.shown += piece.decode()
        return bool(piece)


@contextmanager
def terminal(cli: Cli, *arguments: str) -> Iterator[Terminal]:
    opened = Terminal(cli, *arguments)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_question_is_asked_and_its_answer_counts(embedded_cli: Cli, name: str) -> None:
    embedded_cli.ok("topic", "create", name)
    with terminal(embedded_cli, "topic", "delete", name) as shown:
        shown.wait_for("Go on? [y/N]:")
        assert f"about to delete topic {name} and all its records" in shown.shown
        shown.type("n\n")
        assert shown.end() == 9
        assert "nothing was done: you said no" in shown.shown
    with terminal(embedded_cli, "topic", "delete", name) as shown:
        shown.wait_for("Go on? [y/N]:")
        shown.type("y\n")
        assert shown.end() == 0
    assert name not in [row["topic"] for row in embedded_cli.json("topic", "list")]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_password_is_asked_for_twice_and_not_shown(embedded_cli: Cli, name: str) -> None:
    with terminal(embedded_cli, "user", "add", name) as shown:
        shown.wait_for("Password:")
        shown.type("hidden\n")
        shown.wait_for("Repeat for confirmation:")
        shown.type("hidden\n")
        assert shown.end() == 0, shown.shown
        assert "hidden" not in shown.shown
    assert name in [row["user"] for row in embedded_cli.json("user", "list")]
    embedded_cli.ok("user", "delete", name, "--yes")
