"""At a terminal: questions before what destroys, passwords that are asked for and not shown."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.in_process import Cli

TIMEOUT_S = 60


class Terminal:
    """`oncestream` in a process whose standard streams are one terminal."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self.shown = ""
        self._door, inside = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "oncestream.cli.main", *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**cli.environment, "COLUMNS": "200"},
            start_new_session=True,
        )
        os.close(inside)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self._read()

    def type(self, text: str) -> None:
        os.write(self._door, text.encode())

    def wait_hidden(self) -> None:
        """Until what is typed is not shown: what comes before that is thrown away."""
        deadline = time.monotonic() + TIMEOUT_S
        while termios.tcgetattr(self._door)[3] & termios.ECHO:
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.01)

    def end(self) -> int:
        while self._read():
            pass
        return self._process.wait(TIMEOUT_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_S)
        os.close(self._door)

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


def test_no_answer_is_no_yes(embedded_cli: Cli, name: str) -> None:
    embedded_cli.ok("topic", "create", name)
    with terminal(embedded_cli, "topic", "delete", name) as shown:
        shown.wait_for("Go on? [y/N]:")
        shown.type("\x04")
        assert shown.end() == 9
        assert "nothing was done: there was no answer" in shown.shown


def test_long_work_shows_how_far_it_is(embedded_cli: Cli, name: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x\n" * 3)
    with terminal(embedded_cli, "produce", name, "--file", str(tmp_path / "lines"), "--rate", "10") as shown:
        assert shown.end() == 0, shown.shown
        assert "records" in shown.shown.partition("3 records written")[0]


def test_a_password_is_asked_for_twice_and_not_shown(embedded_cli: Cli, name: str) -> None:
    with terminal(embedded_cli, "user", "add", name) as shown:
        shown.wait_for("Password:")
        shown.wait_hidden()
        shown.type("hidden\n")
        shown.wait_for("Repeat for confirmation:")
        shown.wait_hidden()
        shown.type("hidden\n")
        assert shown.end() == 0, shown.shown
        assert "hidden" not in shown.shown
    assert name in [row["user"] for row in embedded_cli.json("user", "list")]
    embedded_cli.ok("user", "delete", name, "--yes")
