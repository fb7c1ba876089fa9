"""A system that runs the job: the command that starts it, and where it reads and writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Job:
    """One run: from which topic to which, under which name. It reads from the beginning, and never ends."""

    bootstrap: str
    source: str
    sink: str
    name: str

    def arguments(self) -> list[str]:
        return [self.bootstrap, self.source, self.sink, self.name]


@dataclass(frozen=True, slots=True)
class System:
    """`command` starts it for a job; the first call may have to fetch its environment."""

    name: str
    bootstrap: str
    command: Callable[[Job], Sequence[str]]
    partitions: int = 4


def own_program(file: str, *options: str) -> Callable[[Job], Sequence[str]]:
    """A program of this folder, run by this interpreter."""
    return lambda job: [sys.executable, str(PROGRAMS / file), *job.arguments(), *options]
