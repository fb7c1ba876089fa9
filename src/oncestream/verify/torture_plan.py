"""What a torture run does to whom and when: all of it drawn from the seed before the run starts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from oncestream.testing.faults import Fault, FaultKind, random_plan
from oncestream.verify.torture_clients import Role

NETWORK: Final = "network"
BROKER: Final = "broker"
PIPELINE: Final = "pipeline"

CLIENTS: Final = {Role.WRITER: 3, Role.SENDER: 1, Role.COPIER: 2, Role.READER: 2, Role.WATCHER: 1}
CALM_START_S: Final = 2.0
# The last broker lives through the second half, so that one can see whether its memory stays flat.
KILLS_UNTIL: Final = 0.5

KILL_OR_FREEZE: Final = (FaultKind.KILL, FaultKind.FREEZE)
ON_THE_WAY: Final = (
    FaultKind.PAUSE,
    FaultKind.CUT,
    FaultKind.DELAY,
    FaultKind.REQUESTS,
    FaultKind.REQUESTS,
    FaultKind.REQUESTS,
)


@dataclass(frozen=True, slots=True)
class Pace:
    """One fault in so many seconds on average, how long it lasts at most, and how long there is peace after it."""

    every_s: float
    lasts_s_max: float
    rest_s: float = 0.0


CLIENT_PACE: Final = Pace(14.0, 8.0)
NETWORK_PACE: Final = Pace(2.5, 2.0)
PIPELINE_PACE: Final = Pace(45.0, 10.0)
EMBEDDED_PACE: Final = Pace(12.0, 3.0, 1.0)
# A node takes its time to start, and the others to give its partitions back to it.
APACHE_PACE: Final = Pace(20.0, 12.0, 20.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of each target in the order of their times. Each target goes through its own, side by side."""

    seed: int
    duration_s: float
    faults: dict[str, tuple[Fault, ...]]

    @property
    def count(self) -> int:
        return sum(map(len, self.faults.values()))


def client_names() -> list[tuple[Role, int]]:
    return [(role, number) for role, count in CLIENTS.items() for number in range(count)]


def plan_of(seed: int, duration_s: float, *, broker: Pace | None, spark: bool) -> Plan:
    """The same for the same arguments. `broker`: None where the brokers are not ours to kill."""
    lanes: dict[str, tuple[tuple[FaultKind, ...], Pace]] = {
        f"{role}-{number}": (KILL_OR_FREEZE, CLIENT_PACE) for role, number in client_names()
    }
    lanes[NETWORK] = (ON_THE_WAY, NETWORK_PACE)
    if spark:
        lanes[PIPELINE] = (KILL_OR_FREEZE, PIPELINE_PACE)
    if broker is not None:
        lanes[BROKER] = (KILL_OR_FREEZE, broker)
    faults = {name: _lane(seed, name, duration_s, kinds, pace) for name, (kinds, pace) in lanes.items()}
    if broker is not None:
        faults[BROKER] = _calm_second_half(faults[BROKER], duration_s)
    return Plan(seed, duration_s, faults)


def _lane(
    seed: int, name: str, duration_s: float, kinds: tuple[FaultKind, ...], pace: Pace
) -> tuple[Fault, ...]:
    own_seed = random.Random(f"{seed}/{name}").randrange(2**31)  # noqa: S311 - to be repeated
    plan = random_plan(
        own_seed, duration_s, {name: kinds}, every_s=pace.every_s, lasts_s_max=pace.lasts_s_max
    )
    return tuple(fault for fault in plan if fault.at_s >= CALM_START_S)


def _calm_second_half(faults: tuple[Fault, ...], duration_s: float) -> tuple[Fault, ...]:
    until_s = duration_s * KILLS_UNTIL
    return tuple(fault for fault in faults if fault.kind is not FaultKind.KILL or fault.at_s < until_s)
