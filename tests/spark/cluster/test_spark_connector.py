"""Beside Spark's own Kafka connector: its source in front of our sink, our source in front of its sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream.client.cluster import cluster_of
from oncestream.client.offsets import committed_offsets
from oncestream.client.settings import ClientSettings
from oncestream.testing.kafka_jars import SPARK_CONNECTOR, kafka_jars
from tests.spark.cluster.driver import Kind, Work
from tests.spark.cluster.kit import Driver
from tests.spark.sink_kit import new_name, texts
from tests.spark.source_kit import Log

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def driver(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    jars = ",".join(str(jar) for jar in sorted(kafka_jars(SPARK_CONNECTOR).glob("*.jar")))
    with Driver(tmp_path_factory.mktemp("connector"), "local[2]", {"spark.jars": jars}) as driver:
        yield driver


@pytest.fixture
def source(log: Log) -> str:
    topic = log.topic(2)
    log.write(topic, ["a", "b"], partition=0)
    log.transaction(topic, ["aborted"], partition=1, ends="abort")
    log.transaction(topic, ["c", "d"], partition=1)
    return topic


def test_its_source_feeds_our_sink_and_the_group_tells_its_offsets(
    driver: Driver, log: Log, source: str, tmp_path: Path
) -> None:
    name, sink = new_name(), log.topic(2)
    read = {"kafka.isolation.level": "read_committed"}
    work = Work(Kind.FROM_JVM, log.bootstrap, source, sink, str(tmp_path), name=name, read=read)
    driver.start(work)
    driver.finish()
    log.write(source, ["e"])
    driver.start(work)
    driver.finish()
    assert texts(log.bootstrap, sink) == ["A", "B", "C", "D", "E"]
    offsets = committed_offsets(cluster_of(ClientSettings.of(log.bootstrap)), name)
    assert {at.partition: entry.offset for at, entry in offsets.items() if at.topic == source} == {0: 3, 1: 5}


def test_our_source_feeds_its_sink(driver: Driver, log: Log, source: str, tmp_path: Path) -> None:
    sink = log.topic(2)
    work = Work(Kind.TO_JVM, log.bootstrap, source, sink, str(tmp_path))
    driver.start(work)
    driver.finish()
    log.write(source, ["e"])
    driver.start(work)
    driver.finish()
    assert texts(log.bootstrap, sink) == ["a", "b", "c", "d", "e"]
