"""`TestBroker`: an embedded broker with fault hooks, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
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


class TestBroker(FaultProxy):
    """A running broker behind a fault proxy: its address stays when it is restarted; a context manager.

    What the test itself asks for (`create_topic`, `records`) does not go through the proxy, and meets no fault.
    """

    __test__: ClassVar = False  # pytest takes a class of this name for tests

    def __init__(self, broker: Broker, *, process: bool) -> None:
        self._broker = broker
        self._in_child = process
        self._direct = broker.bootstrap_servers
        super().__init__(self._direct)

    def create_topic(self, name: str, partitions: int = BROKER_DEFAULT, **configs: str) -> None:
        """Configurations by their Kafka names, with _ for the dots: retention_ms="1000"."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        cluster = Cluster(ClientSettings.of(self._direct))
        try:
            create_topics(cluster, [NewTopic(parse_topic(name), partitions, configs=settings)])
        finally:
            cluster.close()

    def records(self, topic: str, *, at_least: int = 0, timeout_s: float = READ_TIMEOUT_S) -> list[Record]:
        """Every committed record, by partition and offset; waits until there are `at_least` so many."""
        return committed_records(self._direct, parse_topic(topic), at_least, timeout_s)

    def values(self, topic: str, *, at_least: int = 0) -> list[bytes | None]:
        """The values of `records`."""
        return [record.value for record in self.records(topic, at_least=at_least)]

    def kill(self) -> None:
        """SIGKILL, as a crash would do it; `restart` brings it back."""
        self._must_be_child("killed")
        self._broker.kill()

    def freeze(self) -> None:
        """SIGSTOP: it holds its connections and does nothing, until `thaw`."""
        self._must_be_child("frozen")
        freeze(self._broker.pid)

    def thaw(self) -> None:
        """SIGCONT."""
        self._must_be_child("thawed")
        thaw(self._broker.pid)

    def restart(self) -> None:
        """Stops it where it runs, starts it on its data, and lets clients find it where it was."""
        with self._broker:  # whose end stops it, if it runs
            pass
