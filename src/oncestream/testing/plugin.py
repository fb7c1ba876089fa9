"""The pytest plugin: fixtures `broker`, `broker_process`, `kafka_cluster` and `spark` (docs/testing.md).

It is loaded by every run of pytest where this package is installed, so it imports nothing before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from oncestream.testing.apache_kafka import ApacheKafka
    from oncestream.testing.broker import TestBroker


@pytest.fixture
def broker_settings() -> dict[str, Any]:
    """Settings of the brokers of a test (docs/settings.md): define a fixture of this name to change them."""
    return {}


@pytest.fixture
def broker(broker_settings: dict[str, Any]) -> Iterator[TestBroker]:
    """A fresh embedded broker, in a thread."""
    from oncestream.testing.broker import running_broker

    with running_broker(**broker_settings) as running:
        yield running


@pytest.fixture
def broker_process(broker_settings: dict[str, Any]) -> Iterator[TestBroker]:
    """A fresh embedded broker in a process of its own, which can be killed and frozen."""
    from oncestream.testing.broker import running_broker

    with running_broker(process=True, **broker_settings) as running:
        yield running


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[ApacheKafka]:
    """Apache Kafka, one node for the whole run; the test is skipped where it cannot be had."""
    from oncestream.errors import JarsUnavailable, JavaUnavailable
    from oncestream.testing.apache_kafka import ApacheKafka
    from oncestream.testing.kafka_jars import kafka_jars

    try:
        kafka_jars()
    except (JavaUnavailable, JarsUnavailable) as missing:
        pytest.skip(f"Apache Kafka cannot run here: {missing}")
    with ApacheKafka() as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local SparkSession for the whole run."""
    from oncestream import session

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    running = session("tests", master="local[2]", settings={"spark.sql.warehouse.dir": warehouse})
    yield running
    running.stop()
