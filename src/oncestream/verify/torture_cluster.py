"""What is tortured: the embedded broker, Apache Kafka that is started for it, or a cluster that is there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from oncestream import machine
from oncestream.errors import BrokerFailed
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.clock import random_jump_ms
from oncestream.testing.disk import DiskFaults
from oncestream.testing.faults import freeze, thaw
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.testing.ports import free_address
from oncestream.verify.torture_plan import APACHE_ALONE_PACE, APACHE_PACE, EMBEDDED_PACE, Pace


class Victim(Protocol):
    """A cluster; `nodes` are numbered from 1 and are ours to kill, none where it is somebody else's.

    `machine`: the only node where its clock and disk are ours too.
    """

    name: str
    nodes: int
    pace: Pace | None
    machine: FaultyBroker | None

    @property
    def bootstrap_servers(self) -> str: ...
    def start(self) -> None: ...
    def kill(self, node: int) -> None: ...
    def restart(self, node: int) -> None: ...
    def pid(self, node: int) -> int: ...
    def stop(self) -> None: ...


class Embedded:
    """The broker of this package, in a process of its own, on a port that it finds free after each kill.

    Its log is `broker.log`, beside its data.
    """

    name = "the embedded broker"
    nodes = 1
    pace: Pace | None = EMBEDDED_PACE

    def __init__(self, folder: Path) -> None:
        self.bootstrap_servers = free_address()
        self._broker = FaultyBroker(folder / "broker", listen=self.bootstrap_servers)
        self._broker.log_file = self._broker.log
        self.machine: FaultyBroker | None = self._broker

    def start(self) -> None:
        self._broker.start()

    def kill(self, node: int) -> None:
        assert node == 1
        if self._broker.has_ended:
            raise BrokerFailed(folder=self._broker.settings.data, reason="it ended by itself; see broker.log")
        self._broker.kill()

    def restart(self, node: int) -> None:
        assert node == 1
        self._broker.start()

    def pid(self, node: int) -> int:
        assert node == 1
        return self._broker.pid

    def stop(self) -> None:
        self._broker.stop()


class Apache(ApacheKafka):
    """Apache Kafka, one node or three."""

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__(folder / "kafka", nodes=nodes)
        self.name = f"Apache Kafka, {nodes} {'node' if nodes == 1 else 'nodes'}"
        self.nodes = nodes
        self.pace: Pace | None = APACHE_PACE if nodes > 1 else APACHE_ALONE_PACE
        self.machine: FaultyBroker | None = None


class Given:
    """A cluster that somebody else runs: only its clients and the way to it are tortured."""

    nodes = 0
    pace: Pace | None = None
    machine: FaultyBroker | None = None

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = bootstrap_servers

    def start(self) -> None:
        """It is there."""

    def kill(self, node: int) -> None:
        raise AssertionError(f"node {node} is not ours")

    restart = kill

    def pid(self, node: int) -> int:
        raise AssertionError(f"node {node} is not ours")

    def stop(self) -> None:
        """It stays."""


class Brokers:
    """The nodes of a cluster as faults and measurements see them: one at a time is down or frozen."""

    def __init__(self, victim: Victim) -> None:
        self.victim = victim
        self.rest_s = 0.0 if victim.pace is None else victim.pace.rest_s
        self._lock = threading.Lock()

    def kill(self, node: int, stop: threading.Event, seconds: float) -> None:
        """SIGKILL, and a start after so many seconds."""
        with self._lock:
            self.victim.kill(node)
            stop.wait(seconds)
            self.victim.restart(node)

    def freeze(self, node: int, stop: threading.Event, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        with self._lock:
            pid = self.victim.pid(node)
            freeze(pid)
            stop.wait(seconds)
            thaw(pid)

    def jump(self, seed: int, stop: threading.Event, seconds: float) -> None:
        """The clock is wrong by minutes or hours, and right again after so many seconds."""
        machine = self._machine()
        machine.set_clock_ms(random_jump_ms(seed))
        stop.wait(seconds)
        machine.set_clock_ms(0)

    def spoil_disk(self, faults: DiskFaults, stop: threading.Event, seconds: float) -> None:
        """The disk does this wrong, and nothing after so many seconds."""
        machine = self._machine()
        machine.set_faults(faults)
        stop.wait(seconds)
        machine.set_faults(DiskFaults())

    def _machine(self) -> FaultyBroker:
        assert self.victim.machine is not None, "the clock and the disk are not ours"
        return self.victim.machine

    def memory_bytes(self) -> dict[str, int]:
        """By node; none where one is down just now."""
        if not self._lock.acquire(blocking=False):
            return {}
        try:
            pids = {f"node {node}": self.victim.pid(node) for node in range(1, self.victim.nodes + 1)}
            return {
                name: size for name, pid in pids.items() if (size := machine.resident_bytes(pid)) is not None
            }
        finally:
            self._lock.release()
