"""A driver in a process of its own, its executors and workers, and what to do to them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from tests.spark.cluster.driver import Work
from tests.spark.crashes.family import TAG_VARIABLE, family, send

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[3]
DEADLINE_S: Final = 150.0
POLL_S: Final = 0.02
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Driver:
    """Runs jobs one after the other; a context manager that leaves no process behind."""

    def __init__(self, folder: Path, master: str, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self.folder = folder
        self._tag = uuid.uuid4().hex
        self._log = folder / "driver.log"
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.cluster.driver", master, json.dumps(dict(settings))],
                env=os.environ | {TAG_VARIABLE: self._tag, "PYTHONPATH": path},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        try:
            assert self._next()["event"] == "up"
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, work: Work) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(work.to_json().encode() + b"\n")
        self._process.stdin.flush()

    def finish(self) -> list[dict[str, Any]]:
        """Outcomes of the batches of the job, which must end well."""
        outcomes = []
        while (told := self._next())["event"] == "outcome":
            outcomes.append(told)
        assert told["event"] == "finished", (told, self.tail())
        return outcomes

    def executors(self) -> dict[str, int]:
        """Process ids of the executors' JVMs, by executor id."""
        found = {}
        for pid in family(self._tag):
            arguments = _arguments(pid)
            if any(EXECUTOR in argument for argument in arguments):
                found[arguments[arguments.index("--executor-id") + 1]] = pid
        return found

    def kill(self) -> None:
        send(self._tag, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()
        wait_for(lambda: not family(self._tag))

    def tail(self) -> str:
        return self._log.read_text()[-4_000:]

    def log_since(self, position: int) -> str:
        return self._log.read_text()[position:]

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        poller = select.poll()
        poller.register(self._process.stdout, select.POLLIN)
        assert poller.poll(DEADLINE_S * 1000), f"nothing came in time: {self.tail()}"
        line = self._process.stdout.readline()
        assert line, f"the driver ended: {self.tail()}"
        told: dict[str, Any] = json.loads(line)
        return told


class Hold:
    """A file that stops the job's task half-way, until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / f"{uuid.uuid4().hex}.hold"
        self.file.touch()

    def wait(self) -> dict[str, Any]:
        """Where the task runs: worker and executor."""
        held = self.file.with_suffix(".held")
        wait_for(held.exists)
        told: dict[str, Any] = json.loads(held.read_text())
        return told

    def release(self) -> None:
        self.file.unlink()


def wait_for(condition: Callable[[], T | None]) -> T:
    """The first true answer, or a failure at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(POLL_S)
    return found


def _arguments(pid: int) -> list[str]:
    try:
        return [part.decode() for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return []
