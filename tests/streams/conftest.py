"""Fixtures of the tests of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.streams.stream import Stream
from tests.streams.kit import new_path

MakeStream = Callable[..., Stream]


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    client = Cluster(ClientSettings.of(bootstrap))
    yield client
    client.close()


@pytest.fixture
def make(bootstrap: str) -> MakeStream:
    """A new stream with the attributes given."""
    return partial(_make, bootstrap)


def _make(bootstrap: str, path: str | None = None, **attributes: object) -> Stream:
    stream = Stream(path or new_path(), bootstrap)
    stream.create(**attributes)  # type: ignore[arg-type]
    return stream
