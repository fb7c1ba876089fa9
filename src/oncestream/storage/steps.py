"""Work of several steps, of which those that wait for the disk may run on any thread.

What takes such steps is a generator: it changes state on the owner's thread and yields what is to be done on the disk
before it goes on. `run_here` does it all at once; a broker hands each yielded step to a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class DiskStep:
    """`run` it on any thread, then ask the generator for the next one: it sees the failure."""

    work: Callable[[], None]
    has_run: bool = False
    error: OSError | None = None

    def run(self) -> None:
        try:
            self.work()
        except OSError as error:
            self.error = error
        self.has_run = True


Steps = Iterator[DiskStep]


def step(work: Callable[[], None]) -> Steps:
    """One step: `yield from step(work)` raises what the work raised, on the owner's thread."""
    made = DiskStep(work)
    yield made
    assert made.has_run, "the disk was not waited for"
    if made.error is not None:
        raise made.error


def run_here(steps: Iterable[DiskStep]) -> None:
    for each in steps:
        each.run()
