"""Crash tests are slow and share one worker: Spark's own tests, or those with Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.crashes.kit import Topics

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if not item.get_closest_marker("java"):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)
