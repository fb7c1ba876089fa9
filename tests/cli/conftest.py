"""The command line on a cluster."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream import Broker
from tests.cli.in_process import Cli
from tests.conftest import Target

_numbers = itertools.count()


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> Cli:
    """On the embedded broker and, in a second run of the test, on Apache Kafka."""
    return Cli(tmp_path, bootstrap)


@pytest.fixture
def embedded_cli(embedded: Target, tmp_path: Path) -> Cli:
    """On the embedded broker alone: for what does not depend on the broker."""
    return Cli(tmp_path, embedded.bootstrap_servers)


@pytest.fixture
def nowhere(tmp_path: Path) -> Cli:
    """Where no broker is: bad input is refused before one is asked."""
    return Cli(tmp_path, "127.0.0.1:1")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Cli]:
    """On an embedded broker that nobody else uses."""
    with Broker(tmp_path / "data") as broker:
        yield Cli(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def name() -> str:
    """For a topic, group or stream that no other test has; always of the same length."""
    return f"cli-{os.getpid():08d}-{next(_numbers):04d}"
