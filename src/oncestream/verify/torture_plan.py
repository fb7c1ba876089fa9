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
DEADLY: Final = (FaultKind.KILL, FaultKind.DISK_ERROR)

KILL_OR_FREEZE: Final = (FaultKind.KILL, FaultKind.FREEZE)
# Those that come in the first half only are as frequent as the others.
ON_OUR_MACHINE: Final = (
    *DEADLY,
    *DEADLY,
    FaultKind.FREEZE,
    FaultKind.CLOCK,
    FaultKind.DISK_FULL,
    FaultKind.SLOW_DISK,
)
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
    """What happens, one in so many seconds on average; how long it lasts at most, and the peace after it."""

    kinds: tuple[FaultKind, ...]
    every_s: float
    lasts_s_max: float
    rest_s: float = 0.0


CLIENT_PACE: Final = Pace(KILL_OR_FREEZE, 14.0, 8.0)
NETWORK_PACE: Final = Pace(ON_THE_WAY, 2.5, 2.0)
PIPELINE_PACE: Final = Pace(KILL_OR_FREEZE, 45.0, 10.0)
EMBEDDED_PACE: Final = Pace(ON_OUR_MACHINE, 6.0, 4.0, 1.0)
# A node takes its time to start, and the others to give its partitions back to it.
APACHE_PACE: Final = Pace(KILL_OR_FREEZE, 20.0, 12.0, 20.0)
# A single node that starts again knows no leaders for a while: Apache Kafka 4.3 may then take the partitions of a
# transaction for deleted, call it committed and never write its markers. So it may after a freeze longer than its
# broker.session.timeout.ms of 9 s, for which its own controller takes it for dead.
APACHE_ALONE_PACE: Final = Pace((FaultKind.FREEZE,), 20.0, 8.0, 20.0)


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
    lanes = {f"{role}-{number}": CLIENT_PACE for role, number in client_names()}
    lanes[NETWORK] = NETWORK_PACE
    if spark:
        lanes[PIPELINE] = PIPELINE_PACE
    if broker is not None:
        lanes[BROKER] = broker
    faults = {name: _lane(seed, name, duration_s, pace) for name, pace in lanes.items()}
    if broker is not None:
        faults[BROKER] = _calm_second_half(faults[BROKER], duration_s)
    return Plan(seed, duration_s, faults)


def _lane(seed: int, name: str, duration_s: float, pace: Pace) -> tuple[Fault, ...]:
    own_seed = random.Random(f"{seed}/{name}").randrange(2**31)  # noqa: S311 - to be repeated
    plan = random_plan(
        own_seed, duration_s, {name: pace.kinds}, every_s=pace.every_s, lasts_s_max=pace.lasts_s_max
    )
    return tuple(fault for fault in plan if fault.at_s >= CALM_START_S)


def _calm_second_half(faults: tuple[Fault, ...], duration_s: float) -> tuple[Fault, ...]:
    until_s = duration_s * KILLS_UNTIL
    return tuple(fault for fault in faults if fault.kind not in DEADLY or fault.at_s < until_s)
