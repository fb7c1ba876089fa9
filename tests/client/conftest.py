"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from tests.conftest import Target


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """A client of the embedded broker and, in a second run of the test, of Apache Kafka."""
    client = Cluster(ClientSettings.of(bootstrap))
    yield client
    client.close()


@pytest.fixture(scope="module")
def embedded_cluster(embedded: Target) -> Iterator[Cluster]:
    """A client of the embedded broker alone, for what is the same on every broker, or asked very often."""
    client = Cluster(ClientSettings.of(embedded.bootstrap_servers))
    yield client
    client.close()
