"""Crash tests are slow."""

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


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)
