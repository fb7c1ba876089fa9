"""Types a page of the documentation from top to bottom, as a person would, in an empty folder."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from oncestream.testing.ports import free_address
from tests.docs.page import (
    INTERRUPT,
    SHOWN,
    Block,
    Typed,
    blocks_of,
    is_as_shown,
    typed_in,
)
from tests.effort import IS_SOAK

DEADLINE_S: Final = 240.0
ADDRESSES: Final = ("127.0.0.1:9092", "localhost:9092")  # on a page; its broker gets another, free one
COLUMNS: Final = 110
_DONE: Final = "typist:done"
_PYTHON: Final = """
import sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    source = eval(line)
    try:
        exec(compile(source, "typed", "exec"), names)
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush(); sys.stderr.flush()
    print(f"\\ntypist:done {code}", flush=True)
"""


class PageError(AssertionError):
    """What is typed on the page does not do what the page says."""


class Terminal:
    """A process that is typed to; its output and errors come together, as on a screen."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._unread = b""

    def enter(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def read_line(self) -> str:
        assert self._process.stdout is not None
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self._unread:
            readable, _, _ = select.select(
                [self._process.stdout], [], [], max(0, deadline - time.monotonic())
            )
            more = os.read(self._process.stdout.fileno(), 65536) if readable else b""
            if not more:
                raise PageError("it ended" if readable else f"nothing came for {DEADLINE_S:.0f} s")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    def read_until(self, begin: str) -> str:
        """What is printed until a line begins so, that line included."""
        lines: list[str] = []
        while not lines or not lines[-1].startswith(begin):
            try:
                lines.append(self.read_line())
            except PageError as error:
                raise PageError(f"{error} before {begin!r} came:\n" + "\n".join(lines)) from None
        return "\n".join(lines)

    def interrupt_foreground(self) -> None:
        for child in _children(self._process.pid):
            os.kill(child, signal.SIGINT)

    def close(self) -> None:
        """Ends the session with all that was started in it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


class Typist:
    """Types a page's blocks; each terminal that the page names is one more process."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.elsewhere: list[str] = []  # what is not typed, and why
        self._page = page
        self._address = free_address()
        self._folder = folder / "work"
        self._folder.mkdir(parents=True)
        self._environment = _environment(folder, self._address)
        self._shell = Terminal(["bash"], self._folder, self._environment)
        self._shell.enter("set -o pipefail\n")
        self._python: Terminal | None = None
        self._others: dict[str, Terminal] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for terminal in (self._shell, self._python, *self._others.values()):
            if terminal is not None:
                terminal.close()

    def type_page(self) -> None:
        python_said: str | None = None
        for block in blocks_of(self._page):
            if "elsewhere" in block.words or ("slow" in block.words and not IS_SOAK):
                self.elsewhere.append(
                    f"{self._page.name}:{block.line}: {block.words.get('elsewhere', 'slow')}"
                )
            elif block.language == "console":
                for typed in typed_in(block):
                    self._type_command(typed, block.words.get("terminal"))
            elif block.language == "bash":
                self._run_script(block)
            elif block.file_name is not None:
                (self._folder / block.file_name).write_text(self._here(block.text))
            elif block.language == "python":
                python_said = self._type_python(block)
            elif block.language == "text" and python_said is not None:
                self._compare(
                    block.line, "the Python block above", tuple(block.text.splitlines()), python_said
                )

    def _type_command(self, typed: Typed, terminal_name: str | None) -> None:
        shown = tuple(self._here(line) for line in typed.shown)
        command = self._here(typed.command)
        if terminal_name is not None:
            self._start_in(terminal_name, command, shown, typed.line)
            return
        if command.startswith("oncestream config set"):
            self._shell.enter(
                "unset ONCESTREAM_BOOTSTRAP\n"
            )  # from now on the profile in use names the cluster
        goes_on = bool(shown) and shown[-1] == INTERRUPT
        self._shell.enter(f"{{ {command}\n}} < /dev/null\nprintf '\\n%s %d\\n' {_DONE} $?\n")
        if goes_on:
            self._shell.read_until(shown[-2])
            self._shell.interrupt_foreground()
            self._shell.read_until(_DONE)
            return
        printed, _, code = self._shell.read_until(_DONE).rpartition(f"{_DONE} ")
        printed = printed.removesuffix("\n")
        if shown:
            self._compare(typed.line, command, shown, printed)
        elif code != "0":
            raise PageError(f"{self._page.name}:{typed.line}: exit code {code} of\n$ {command}\n{printed}")
        if "Traceback (most recent call last)" in printed:
            raise PageError(f"{self._page.name}:{typed.line}: a traceback from\n$ {command}\n{printed}")

    def _run_script(self, block: Block) -> None:
        """A script says on standard output what its `#> ` lines show, and names its own broker."""
        environment = {name: self._environment[name] for name in self._environment if not is_ours(name)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        shown = [line.removeprefix(SHOWN) for line in block.text.splitlines() if line.startswith(SHOWN)]
        self._compare(block.line, f"the script, which says\n{done.stderr}", tuple(shown), done.stdout)
        if done.returncode or "Traceback" in done.stderr:
            raise PageError(f"{self._page.name}:{block.line}: exit code {done.returncode}:\n{done.stderr}")

    def _start_in(self, name: str, command: str, shown: tuple[str, ...], line_number: int) -> None:
        if name in self._others:
            self._others.pop(name).close()
        terminal = self._others[name] = Terminal(["bash"], self._folder, self._environment)
        terminal.enter(f"exec {command}\n" if "\n" not in command else f"{command}\n")
        wanted = list(shown)
        while wanted:
            printed = terminal.read_line()
            if wanted[0] == "...":
                wanted = wanted[2:] if is_as_shown((wanted[1],), printed) else wanted
            else:
                self._compare(line_number, command, (wanted.pop(0),), printed)

    def _type_python(self, block: Block) -> str:
        if self._python is None:
            command = [sys.executable, "-c", _PYTHON]
            self._python = Terminal(command, self._folder, self._environment)
        self._python.enter(repr(self._here(block.text)) + "\n")
        printed, _, code = self._python.read_until(_DONE).rpartition(f"{_DONE} ")
        if code != "0":
            raise PageError(f"{self._page.name}:{block.line}: this Python block failed:\n{printed}")
        return printed.removesuffix("\n")

    def _compare(self, line: int, command: str, shown: tuple[str, ...], printed: str) -> None:
        if not is_as_shown(shown, printed.strip("\n")):
            page = "\n".join(shown)
            raise PageError(
                f"{self._page.name}:{line}: the page shows otherwise\n$ {command}\n"
                f"--- the page\n{page}\n--- what came\n{printed}"
            )

    def _here(self, text: str) -> str:
        for address in ADDRESSES:
            text = text.replace(address, self._address)
        return text


def is_ours(variable: str) -> bool:
    """Whether this run has set it, not a user."""
    return variable.startswith("ONCESTREAM_") or variable == "JDK_JAVA_OPTIONS"


def _environment(folder: Path, address: str) -> dict[str, str]:
    """A user's: a home of their own, `oncestream` and `python` on the PATH, nothing of this run's settings."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in {"oncestream": "-m oncestream.cli.main", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not is_ours(name)}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "ONCESTREAM_CACHE": str(Path.home() / ".cache" / "oncestream"),  # of the archive of Java classes
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": str(COLUMNS),
        "ONCESTREAM_BOOTSTRAP": address,
        "ONCESTREAM_BROKER_LISTEN": address,
    }


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]
