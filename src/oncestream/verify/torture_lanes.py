"""Lanes: each target of a torture run goes through its faults in a thread of its own, and writes them down."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oncestream.testing.disk import DiskFaults
from oncestream.testing.faults import Fault, FaultKind
from oncestream.testing.network_faults import RETRIED, NetworkFault, Trouble, random_rules
from oncestream.testing.proxy import FaultProxy
from oncestream.verify.history import HistoryWriter, Kind, Phase
from oncestream.verify.torture_cluster import Brokers
from oncestream.verify.torture_lives import Lives
from oncestream.wire.api import ApiKey

LOOK_S: Final = 0.1
DELAY_S: Final = 0.3
RULES_EACH: Final = 6
RULES_WITHIN: Final = 8
JOIN_S: Final = 300.0
REPLACED_OF: Final = 4  # freezes, all but one
ROOM_BYTES_MAX: Final = 8 * 1024
SLOW_MS: Final = (50, 500)
DISK_PLACES: Final = (
    "*",
    "*",
    "*/torture-*",
    "*/__transaction_state-*",
    "*/__consumer_offsets-*",
    "*/.journal-*",
)
DELAYED: Final = (ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.FIND_COORDINATOR)
TROUBLES: Final = (
    Trouble.FAIL,
    Trouble.DELAY,
    Trouble.DELAY_ANSWER,
    Trouble.DROP,
    Trouble.DROP_ANSWER,
    Trouble.CUT_BEFORE,
    Trouble.CUT_AFTER,
    Trouble.CUT_AFTER,
    Trouble.DUPLICATE,
)
# No error of FindCoordinator is one that every client tries again after.
COORDINATOR_TROUBLES: Final = (Trouble.DELAY, Trouble.DROP_ANSWER, Trouble.CUT_BEFORE, Trouble.CUT_AFTER)


class Lane(ABC):
    """A thread. `stop` ends it soon, with the fault that it is making.

    Where a fault took longer than planned, those that should have come meanwhile, or `rest_s` after it, are left out.
    """

    def __init__(
        self,
        name: str,
        faults: Sequence[Fault],
        folder: Path,
        stop: threading.Event,
        *,
        rest_s: float = 0.0,
    ) -> None:
        self.name = name
        self.counts: Counter[FaultKind] = Counter()
        self.failure: BaseException | None = None
        self.stop = stop
        self._faults = faults
        self._rest_s = rest_s
        self._file = folder / f"fault-{name}.jsonl"
        self._thread = threading.Thread(target=self._run, name=f"torture-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    @abstractmethod
    def do(self, fault: Fault) -> None:
        """Makes the fault, and ends it."""

    def look(self) -> None:  # noqa: B027 - most have nothing to look after
        """Called several times a second between the faults."""

    def _run(self) -> None:
        begin = free_at = time.monotonic()
        try:
            with HistoryWriter(self._file) as history:
                for fault in self._faults:
                    if begin + fault.at_s < free_at:
                        continue
                    self._wait_until(begin + fault.at_s)
                    if self.stop.is_set():
                        return
                    self._make(fault, history)
                    free_at = time.monotonic() + self._rest_s
                self._wait_until(None)
        except BaseException as error:
            self.failure = error

    def _make(self, fault: Fault, history: HistoryWriter) -> None:
        note = f"{fault.kind} {self.name}"
        history.write(Kind.FAULT, Phase.INVOKE, self.name, note=note)
        self.do(fault)
        self.counts[fault.kind] += 1
        if fault.kind.lasts:
            history.write(Kind.FAULT, Phase.OK, self.name, note=note)

    def _wait_until(self, moment: float | None) -> None:
        while not self.stop.is_set() and (moment is None or time.monotonic() < moment):
            self.look()
            left = LOOK_S if moment is None else moment - time.monotonic()
            self.stop.wait(max(0.0, min(LOOK_S, left)))


class ProgramLane(Lane):
    """A client or the pipeline. Where `is_replaced`, most freezes let a new life begin beside the old one."""

    def __init__(
        self,
        lives: Lives,
        faults: Sequence[Fault],
        folder: Path,
        stop: threading.Event,
        *,
        is_replaced: bool,
    ) -> None:
        super().__init__(lives.name, faults, folder, stop)
        self.lives = lives
        self._is_replaced = is_replaced

    def look(self) -> None:
        self.lives.look()

    def do(self, fault: Fault) -> None:
        if fault.kind is FaultKind.KILL:
            self.lives.kill()
            self.stop.wait(fault.lasts_s)
            return
        frozen = self.lives.freeze()
        if frozen is None:
            return
        if self._is_replaced and fault.seed % REPLACED_OF:
            self.lives.replace()
        self.stop.wait(fault.lasts_s)
        self.lives.thaw(frozen)


class BrokerLane(Lane):
    """The seed of a fault says which node it meets."""

    def __init__(
        self, brokers: Brokers, name: str, faults: Sequence[Fault], folder: Path, stop: threading.Event
    ) -> None:
        super().__init__(name, faults, folder, stop, rest_s=brokers.rest_s)
        self._brokers = brokers

    def do(self, fault: Fault) -> None:
        node = 1 + fault.seed % self._brokers.victim.nodes
        match fault.kind:
            case FaultKind.KILL:
                self._brokers.kill(node, self.stop, fault.lasts_s)
            case FaultKind.FREEZE:
                self._brokers.freeze(node, self.stop, fault.lasts_s)
            case FaultKind.CLOCK:
                self._brokers.jump(fault.seed, self.stop, fault.lasts_s)
            case FaultKind.DISK_ERROR:
                self._brokers.spoil_disk(disk_faults_of(fault), self.stop, fault.lasts_s)
                self._brokers.kill(node, self.stop, 0.0)  # a failed flush is final until a restart
            case _:
                self._brokers.spoil_disk(disk_faults_of(fault), self.stop, fault.lasts_s)


class NetworkLane(Lane):
    """What happens on the way, in the proxy through which all clients go."""

    def __init__(
        self, proxy: FaultProxy, name: str, faults: Sequence[Fault], folder: Path, stop: threading.Event
    ) -> None:
        super().__init__(name, faults, folder, stop)
        self._proxy = proxy
        self._rules: list[NetworkFault] = []

    @property
    def hits(self) -> int:
        """Requests that met one of its rules."""
        return sum(rule.hits for rule in self._rules)

    def do(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.PAUSE:
                with self._proxy.pause():
                    self.stop.wait(fault.lasts_s)
            case FaultKind.CUT:
                self._proxy.cut_all()
            case FaultKind.DELAY:
                rule = self._proxy.delay(DELAYED[fault.seed % len(DELAYED)], DELAY_S)
                self._rules.append(rule)
                self.stop.wait(fault.lasts_s)
                rule.remove()
            case _:
                self._add_rules(fault.seed)

    def _add_rules(self, seed: int) -> None:
        apis = [api for api in RETRIED if api is not ApiKey.FETCH]
        rules = random_rules(seed, RULES_EACH, within=RULES_WITHIN, apis=apis, troubles=TROUBLES)
        rules += random_rules(
            seed, 1, within=RULES_WITHIN, apis=[ApiKey.FIND_COORDINATOR], troubles=COORDINATOR_TROUBLES
        )
        self._rules += self._proxy.add_all(rules)


def disk_faults_of(fault: Fault) -> DiskFaults:
    """What the seed of a fault of the disk makes of it: where, how slow, how much room is left before."""
    dice = random.Random(fault.seed)  # noqa: S311 - to be repeated, not to be secret
    where = dice.choice(DISK_PLACES)
    match fault.kind:
        case FaultKind.DISK_FULL:
            return DiskFaults(room_bytes=dice.randrange(ROOM_BYTES_MAX), full_paths=where)
        case FaultKind.SLOW_DISK:
            return DiskFaults(sync_delay_ms=dice.randint(*SLOW_MS))
        case _:
            return DiskFaults(sync_errors=where)
