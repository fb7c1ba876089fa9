"""One Spark session for all tests of pipelines, and logs to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from oncestream.spark.source import OncestreamSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("oncestream tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.dataSource.register(OncestreamSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def log(bootstrap: str) -> Log:
    """Topics on the embedded broker and, in a second run of the test, on Apache Kafka."""
    return Log(bootstrap)


@pytest.fixture(scope="session")
def embedded_log(embedded: tuple[str, Path]) -> Log:
    return Log(embedded[0])
