from __future__ import annotations

from pathlib import Path

import pytest

from oncestream.storage.config import LogConfig
from tests.storage.kit import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data", LogConfig())


@pytest.fixture
def small(tmp_path: Path) -> Store:
    """Segments of a few batches and an index entry for nearly every batch."""
    return Store(tmp_path / "data", LogConfig(segment_bytes=1000, index_interval_bytes=100))
