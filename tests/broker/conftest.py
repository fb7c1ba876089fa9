"""Fixtures of the broker tests: a broker to talk to, connections that are closed again."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from oncestream import Broker
from oncestream.broker.server import SWEEP_SECONDS
from oncestream.testing.disk import DiskFaults
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.testing.ports import free_address
from tests.broker.kit import BrokerInThread, Wire, create_topic

Connect = Callable[[str], Wire]


class StartBroker(Protocol):
    """Starts a broker on a folder of its own, which stops when the test ends."""

    def __call__(
        self, *, data: Path | None = None, process: bool = False, sweep_s: float = ..., **settings: Any
    ) -> Broker: ...


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(
            *,
            data: Path | None = None,
            process: bool = False,
            sweep_s: float = SWEEP_SECONDS,
            **settings: Any,
        ) -> Broker:
            folder = data or tmp_path / f"broker-{next(numbers)}"
            if process:
                return stack.enter_context(Broker(folder, process=True, **settings))
            return stack.enter_context(BrokerInThread(folder, sweep_s=sweep_s, **settings))

        yield start


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens connections that are closed when the test ends."""
    with ExitStack() as stack:
        yield lambda bootstrap: stack.enter_context(Wire(bootstrap))


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    """A connection to the embedded broker and, in a second run of the test, to Apache Kafka."""
    with Wire(bootstrap) as connection:
        yield connection


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The log lines of level WARNING and above, so far."""
    caplog.set_level(logging.WARNING, logger="oncestream")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker process whose disk fails on command, on a port that stays its own, with a topic `events`."""
    made = FaultyBroker(
        tmp_path / "data",
        listen=free_address(),
        housekeeping_ms=100,
        offsets_partitions=2,
        transaction_partitions=2,
    )
    with made:
        with Wire(made.bootstrap_servers) as wire:
            create_topic(wire, "events")
        yield made
        made.set_faults(DiskFaults())
