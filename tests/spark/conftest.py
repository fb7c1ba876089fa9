"""One Spark session for all tests of pipelines, and logs to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE = Path(__file__).parent
IN_THE_INNER_LOOP = {"test_each.py"}  # of those that need a Spark session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker of pytest-xdist, and so one Spark, for all that needs no Java; the rest is where Kafka is.

    A few tests with a Spark session are enough for `make test-quick`.
    """
    for item in items:
        if HERE not in item.path.parents:
            continue
        if not item.get_closest_marker("java"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if "spark" in getattr(item, "fixturenames", ()) and item.path.name not in IN_THE_INNER_LOOP:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from oncestream.spark.session import session

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    spark = session("oncestream tests", master="local[2]", settings={"spark.sql.warehouse.dir": warehouse})
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def log(bootstrap: str) -> Log:
    """Topics on the embedded broker and, in a second run of the test, on Apache Kafka."""
    return Log(bootstrap)


@pytest.fixture(scope="session")
def embedded_log(embedded: tuple[str, Path]) -> Log:
    return Log(embedded[0])
