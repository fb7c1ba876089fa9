"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    """A client of the embedded broker and, in a second run of the test, of Apache Kafka."""
    client = Cluster(ClientSettings.of(bootstrap))
    yield client
    client.close()
