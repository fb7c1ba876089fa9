"""Tests of clusters are slow; a driver with two executors for those that need no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.kit import Driver

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver with two executors, each a JVM with one core. Fetches of shuffled rows are small ones."""
    settings = {"spark.reducer.maxSizeInFlight": "64k", "spark.shuffle.readHostLocalDisk": "false"}
    folder = tmp_path_factory.mktemp("local-cluster")
    with Driver(folder, "local-cluster[2,1,1024]", settings) as driver:
        yield driver
