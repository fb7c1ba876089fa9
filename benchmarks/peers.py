"""The brokers that are compared: Apache Kafka and the embedded broker, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.flusher import flushing_beside
from oncestream.testing.apache_kafka import ApacheKafka, brokers_answering
from oncestream.testing.ports import HOST, free_ports

START_TIMEOUT_S: Final = 60
TOPIC_TIMEOUT_S: Final = 30
PROBE_INTERVAL_S: Final = 0.001
# The benchmarks delete what they wrote; Kafka would keep the files for another minute.
FILES_GO_SOON: Final = {"log.segment.delete.delay.ms": "1000"}
NOTICE: Final = 5  # log level of librdkafka

KAFKA: Final = "Kafka"
KAFKA_FLUSHING: Final = "Kafka, flush.messages=1"
KAFKA_BESIDE_FLUSHES: Final = "Kafka, beside a process that flushes as much"
OURS_OS: Final = "Oncestream, durability=os"
OURS_FSYNC: Final = "Oncestream, durability=fsync"
OURS_FSYNC_SOURCES: Final = "Oncestream, durability=fsync, not compiled"


class Peer(Protocol):
    """A single-node broker that can be started, measured and stopped."""

    name: str

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Kafka:
    """Apache Kafka with its own defaults, but for what `settings` says."""

    def __init__(self, name: str, **settings: str) -> None:
        self.name = name
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self._folder = tempfile.TemporaryDirectory(prefix="oncestream-bench-")
        self._kafka = ApacheKafka(Path(self._folder.name), settings=FILES_GO_SOON | named)

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._kafka.pid(1)

    def start(self) -> None:
        self._kafka.start()

    def stop(self) -> None:
        self._kafka.stop()

    def flushing_beside(self, topic: str) -> AbstractContextManager[None]:
        """As much as comes to the topic is meanwhile flushed to the same disk, by somebody else."""
        folder = self._kafka.data_folder(1)
        return flushing_beside(folder, topic, folder.with_name("flushed"))


class BesideFlushes:
    """A Kafka that runs, once more: what a producer can get from it while the disk is at work."""

    def __init__(self, name: str, kafka: Kafka) -> None:
        self.name = name
        self.flushing = kafka.flushing_beside
        self._kafka = kafka

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def start(self) -> None:
        """It is."""

    def stop(self) -> None:
        """The other one's."""


class Oncestream:
    """The embedded broker, started by its command line; `settings` are its own.

    Without a folder it has a temporary one. `code`: a folder with the package, if not the one this program runs.
    """

    def __init__(
        self, name: str, data: Path | None = None, code: Path | None = None, **settings: str
    ) -> None:
        self.name = name
        self._environment = os.environ | {"PYTHONPATH": str(code)} if code else None
        self._folder = tempfile.TemporaryDirectory(prefix="oncestream-bench-")
        self._data = data or Path(self._folder.name)
        self._port = free_ports(1)[0]
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-m", "oncestream.cli.main", "broker", "start"]
        command += ["--data", str(self._data), "--listen", self.bootstrap]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        assert not brokers_answering(HOST, self._port), f"somebody else answers on {self.bootstrap}"
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._environment
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not brokers_answering(HOST, self._port):
            assert self._process.poll() is None, f"{' '.join(command)} ended"
            assert time.monotonic() < deadline, f"{' '.join(command)} does not answer"
            time.sleep(PROBE_INTERVAL_S)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


@contextmanager
def running(*peers: Peer) -> Iterator[dict[str, Peer]]:
    """The peers by name, started; they are stopped in the end."""
    with ExitStack() as stack:
        for peer in peers:
            stack.callback(peer.stop)
            peer.start()
        yield {peer.name: peer for peer in peers}


@contextmanager
def topic_on(peer: Peer, name: str, partitions: int) -> Iterator[str]:
    """A topic for the time of one measurement."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": NOTICE})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TOPIC_TIMEOUT_S)
    deadline = time.monotonic() + TOPIC_TIMEOUT_S
    while name not in admin.list_topics(timeout=TOPIC_TIMEOUT_S).topics:
        assert time.monotonic() < deadline, f"{peer.name} never showed topic {name}"
        time.sleep(0.01)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(TOPIC_TIMEOUT_S)
