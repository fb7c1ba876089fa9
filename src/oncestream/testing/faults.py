"""Faults of processes, and plans of faults over time that a seed repeats."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oncestream.errors import BadFault, ProcessNotThere

EVERY_S: Final = 5.0
LASTS_S_MAX: Final = 3.0


def kill(pid: int) -> None:
    """SIGKILL: nothing is flushed, no one is told."""
    _send(pid, signal.SIGKILL)


def freeze(pid: int) -> None:
    """SIGSTOP: it keeps its connections and does nothing, as one in a long pause of its garbage collector."""
    _send(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """SIGCONT: it goes on."""
    _send(pid, signal.SIGCONT)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    freeze(pid)
    try:
        yield
    finally:
        thaw(pid)


class FaultKind(StrEnum):
    """What can happen to a target.

    The clock and the disk are those of a `FaultyBroker`; the last four lie between a target and its clients, in a
    `FaultProxy`.
    """

    KILL = "kill"
    FREEZE = "freeze"
    CLOCK = "clock jump"
    DISK_FULL = "disk full"
    SLOW_DISK = "slow disk"
    DISK_ERROR = "disk error"  # flushes fail
    PAUSE = "pause"
    CUT = "cut"
    DELAY = "delay"
    REQUESTS = "requests"

    @property
    def lasts(self) -> bool:
        """Whether it has an end: a thaw, a resume, room, the last delayed request, the start after a kill."""
        return self not in {FaultKind.CUT, FaultKind.REQUESTS}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to whom, how long after the start, and for how long; `seed` for what it draws itself."""

    at_s: float
    kind: FaultKind
    target: str
    lasts_s: float
    seed: int


def random_plan(
    seed: int,
    duration_s: float,
    targets: Mapping[str, Sequence[FaultKind]],
    *,
    every_s: float = EVERY_S,
    lasts_s_max: float = LASTS_S_MAX,
) -> list[Fault]:
    """Faults in the order of their times, one in `every_s` on average; the same ones for the same seed.

    `targets` says what may happen to each. A target meets no fault before the last one it met is over.
    """
    if not targets or not all(targets.values()):
        raise BadFault(reason="a target has no fault", advice="name a kind of fault for every target")
    dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    names, free_at = sorted(targets), dict.fromkeys(targets, 0.0)
    plan: list[Fault] = []
    at_s = dice.expovariate(1 / every_s)
    while at_s < duration_s:
        target = dice.choice(names)
        kind = dice.choice(list(targets[target]))
        lasts_s = dice.uniform(0, min(lasts_s_max, duration_s - at_s)) if kind.lasts else 0.0
        if free_at[target] <= at_s:
            plan.append(Fault(round(at_s, 3), kind, target, round(lasts_s, 3), dice.randrange(2**31)))
            free_at[target] = at_s + lasts_s
        at_s += dice.expovariate(1 / every_s)
    return plan


def _send(pid: int, what: signal.Signals) -> None:
    if pid in {0, 1, os.getpid()} or pid < 0:
        raise BadFault(
            reason=f"{what.name} to process {pid} would hit this program or everything",
            advice="give the process id of a child",
        )
    try:
        os.kill(pid, what)
    except OSError as error:
        raise ProcessNotThere(pid=pid, signal=what.name, reason=error.strerror) from None
