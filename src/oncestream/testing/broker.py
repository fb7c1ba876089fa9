"""`running_broker()`: an embedded broker with fault hooks, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from oncestream.broker.embedded import Broker
from oncestream.client.admin import BROKER_DEFAULT, NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadFault
from oncestream.messaging.record import Record
from oncestream.streams.names import parse_topic
from oncestream.testing.committed import READ_TIMEOUT_S, committed_records
from oncestream.testing.faults import freeze, thaw
from oncestream.testing.proxy import FaultProxy


@contextmanager
def running_broker(*, process: bool = False, **settings: object) -> Iterator[TestBroker]:
    """A fresh broker in a temporary folder, in a thread or (to kill it) a process; settings as `Broker` has them.

    Unless told otherwise it does not wait for the disk: a test that kills it loses nothing by that.
    """
    with TemporaryDirectory(prefix="oncestream-test-", ignore_cleanup_errors=True) as folder:
        broker = Broker(folder, process=process, **{"durability": "os", **settings}).start()
        with TestBroker(broker, process=process) as running:
            yield running


class TestBroker(FaultProxy):
    """A broker behind a fault proxy: clients find it at the same address after a restart.

    What the test itself asks for (`create_topic`, `records`) does not go through the proxy, and meets no fault.
    """

    __test__: ClassVar = False  # pytest would take a class of this name for tests

    def __init__(self, broker: Broker, *, process: bool) -> None:
        self._broker = broker
        self._is_child = process
        self._is_up = True
        self._direct = broker.bootstrap_servers
        super().__init__(self._direct)

    @property
    def folder(self) -> Path:
        """Where it keeps its data."""
        return self._broker.settings.data

    def create_topic(self, name: str, partitions: int = BROKER_DEFAULT, **configs: str) -> None:
        """Configurations by their Kafka names, with _ for dots: retention_ms="1000"."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        cluster = Cluster(ClientSettings.of(self._broker.bootstrap_servers))
        try:
            create_topics(cluster, [NewTopic(parse_topic(name), partitions, configs=named)])
        finally:
            cluster.close()

    def records(self, topic: str, *, at_least: int = 0, timeout_s: float = READ_TIMEOUT_S) -> list[Record]:
        """Every committed record, by partition and offset; waits until there are `at_least` so many."""
        return committed_records(self._broker.bootstrap_servers, parse_topic(topic), at_least, timeout_s)

    def kill(self) -> None:
        """SIGKILL, as a crash would do it; `restart` brings it back."""
        self._must_be_child("killed")
        self._is_up = False
        self._broker.kill()

    def freeze(self) -> None:
        """SIGSTOP: it keeps its connections and does nothing, until `thaw`."""
        self._must_be_child("frozen")
        freeze(self._broker.pid)

    def thaw(self) -> None:
        """SIGCONT: it goes on."""
        self._must_be_child("thawed")
        thaw(self._broker.pid)

    def stop(self) -> None:
        """In good order; `restart` brings it back."""
        if self._is_up and self._is_child:
            thaw(self._broker.pid)
        if self._is_up:
            self._is_up = False
            self._broker.stop()

    def restart(self) -> None:
        """Starts it on its data, after a stop where it runs."""
        self.stop()
        self._broker.start()
        self._is_up = True
        before, self._direct = self._direct, self._broker.bootstrap_servers
        if before != self._direct:
            self.move(before, self._direct)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.stop()

    def _must_be_child(self, done: str) -> None:
        if not self._is_child:
            raise BadFault(
                reason=f"a broker in a thread of this process cannot be {done}",
                advice="use the fixture broker_process, or running_broker(process=True)",
            )
