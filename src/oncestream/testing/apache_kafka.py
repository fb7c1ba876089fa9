"""Apache Kafka itself (KRaft, every node broker and controller), started from its jars.

What runs on the embedded broker must run on this unchanged: tests and benchmarks put both side by side.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from oncestream.errors import KafkaFailed
from oncestream.testing.kafka_jars import java_command, run_tool
from oncestream.testing.ports import HOST, free_ports

START_TIMEOUT_S: Final = 90
STOP_TIMEOUT_S: Final = 30
PROBE_TIMEOUT_S: Final = 5
PROBE_INTERVAL_S: Final = 0.02

# What Kafka's own start script gives the JVM.
BROKER_OPTIONS: Final = (
    "-server",
    "-Xms1G",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
MECHANISM: Final = "SCRAM-SHA-512"
CLUSTER_ID: Final = "T25jZXN0cmVhbVRlc3RzMQ"
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

# Metadata (3) version 1 for no topic: size, api key, version, correlation id, null client id, empty list.
METADATA_REQUEST: Final = struct.pack(">ihhihi", 14, 3, 1, 0, -1, 0)
METADATA_ANSWER_HEAD: Final = struct.Struct(">iii")  # size, correlation id, number of brokers


class ApacheKafka:
    """A cluster of one or more nodes, numbered from 1; a context manager.

    Without a folder it lives in a temporary one that goes with it. With users (name to password) clients must
    log in by SCRAM-SHA-512, and an authorizer lets only super users do what no access rule allows.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        nodes: int = 1,
        settings: Mapping[str, str] = NO_SETTINGS,
        users: Mapping[str, str] = NO_SETTINGS,
        super_users: Sequence[str] = (),
    ) -> None:
        self._temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="oncestream-kafka-"))
        ports = iter(free_ports(3 * nodes))
        self._nodes = {
            i + 1: _Node(i + 1, next(ports), next(ports), next(ports) if users else None, self._folder)
            for i in range(nodes)
        }
        self._settings = dict(settings)
        self._users = dict(users)
        self._super_users = [f"User:{name}" for name in super_users]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self._nodes.values())

    def client_settings(self, user: str) -> dict[str, str]:
        """What a client needs beside the bootstrap servers to log in as this user."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    def start(self) -> None:
        """Format what is not formatted yet, start every node, wait until each knows all of them."""
        for node in self._nodes.values():
            if not node.data.exists():
                self._format(node)
        for node in self._nodes.values():
            node.launch()
        for node in self._nodes.values():
            node.wait_until_ready(brokers=len(self._nodes))

    def kill(self, node: int) -> None:
        """SIGKILL: nothing is flushed, no one is told."""
        self._nodes[node].kill()

    def restart(self, node: int) -> None:
        """Start a node that was killed, on its old data and port, and wait until it answers."""
        self._nodes[node].launch()
        self._nodes[node].wait_until_ready(brokers=1)

    def revive(self) -> None:
        """Restart every node that was killed and wait until each knows all of them."""
        for node in self._nodes.values():
            if node.process is None:
                node.launch()
        for node in self._nodes.values():
            node.wait_until_ready(brokers=len(self._nodes))

    def pid(self, node: int) -> int:
        """Process id of a running node."""
        return self._nodes[node].running().pid

    def data_folder(self, node: int) -> Path:
        """Where a node keeps its partitions."""
        return self._nodes[node].data

    def stop(self) -> None:
        """Stop every node in good order; a temporary folder is removed."""
        for node in self._nodes.values():
            if node.process is not None:
                node.process.terminate()
        for node in self._nodes.values():
            node.wait_until_gone()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _format(self, node: _Node) -> None:
        lines = [f"{name}={value}" for name, value in self._properties(node).items()]
        node.properties.parent.mkdir(parents=True, exist_ok=True)
        node.properties.write_text("\n".join(lines) + "\n")
        scram = [
            f"--add-scram={MECHANISM}=[name={name},password={password}]"
            for name, password in self._users.items()
        ]
        done = run_tool(
            "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(node.properties), *scram
        )
        if done.returncode != 0:
            raise KafkaFailed(node=node.id, reason=_tail(done.stdout + done.stderr))

    def _properties(self, node: _Node) -> dict[str, str]:
        return self._defaults(node) | (self._security(node) if self._users else {}) | self._settings

    def _defaults(self, node: _Node) -> dict[str, str]:
        replicas = str(min(3, len(self._nodes)))
        in_sync = "2" if len(self._nodes) > 2 else "1"
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.id),
            "controller.quorum.voters": ",".join(
                f"{other.id}@{HOST}:{other.controller_port}" for other in self._nodes.values()
            ),
            "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(node.data),
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": "8",
            "group.initial.rebalance.delay.ms": "0",
        }

    def _security(self, node: _Node) -> dict[str, str]:
        """The nodes themselves talk without a login, on a listener of their own, and may do everything."""
        listeners = f"CLIENT://{HOST}:{node.port},INSIDE://{HOST}:{node.inside_port}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "INSIDE",
            "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.client.{MECHANISM.lower()}.sasl.jaas.config": login,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(["User:ANONYMOUS", *self._super_users]),
        }


def brokers_answering(host: str, port: int, timeout_s: float = PROBE_TIMEOUT_S) -> int:
    """How many brokers the one at this address names in a Metadata answer; 0 where none answers."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(METADATA_REQUEST)
            head = connection.recv(METADATA_ANSWER_HEAD.size, socket.MSG_WAITALL)
    except OSError:
        return 0
    if len(head) < METADATA_ANSWER_HEAD.size:
        return 0
    count: int = METADATA_ANSWER_HEAD.unpack(head)[2]
    return count


@dataclass(slots=True)
class _Node:
    """One JVM, its ports and its files."""

    id: int
    port: int
    controller_port: int
    inside_port: int | None
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def data(self) -> Path:
        return self.folder / f"data{self.id}"

    @property
    def properties(self) -> Path:
        return self.folder / f"node{self.id}.properties"

    @property
    def log(self) -> Path:
        return self.folder / f"node{self.id}.log"

    def launch(self) -> None:
        assert self.process is None, f"node {self.id} runs already"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 -- a fixed command
                java_command("kafka.Kafka", str(self.properties), options=BROKER_OPTIONS),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, f"node {self.id} is not running"
        return self.process

    def wait_until_ready(self, brokers: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while brokers_answering(HOST, self.inside_port or self.port) < brokers:
            status = self.running().poll()
            if status is not None:
                raise KafkaFailed(node=self.id, reason=f"exit status {status}: {_tail(self.log.read_text())}")
            if time.monotonic() > deadline:
                raise KafkaFailed(node=self.id, reason=f"no answer within {START_TIMEOUT_S} s")
            time.sleep(PROBE_INTERVAL_S)

    def kill(self) -> None:
        self.running().kill()
        self.wait_until_gone()

    def wait_until_gone(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def _tail(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-3:])
