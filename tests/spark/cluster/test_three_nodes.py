"""A pipeline on three nodes of Apache Kafka, one of which is killed in the middle of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import admin as typed_admin

from oncestream.spark.batch import Step
from oncestream.testing.apache_kafka import ApacheKafka
from tests.spark.sink_kit import Run, new_name, stream, texts
from tests.spark.source_kit import TIMEOUT_S, Log, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

admin: Any = typed_admin
BATCHES = 4
BATCH_ROWS = 3_000


@pytest.mark.parametrize("driver_rows_max", [20_000, 0], ids=["driver", "tasks"])
def test_a_node_killed_in_the_middle_of_a_batch_costs_no_row(
    spark: SparkSession, three_nodes: ApacheKafka, tmp_path: Path, driver_rows_max: int
) -> None:
    servers = three_nodes.bootstrap_servers
    source, sink = new_name("in"), new_name("out")
    _replicated(servers, source, sink)
    values = [f"row {number}" for number in range(BATCHES * BATCH_ROWS)]
    for partition in range(3):
        Log(servers).write(source, values[partition::3], partition=partition)
    killed: list[int] = []

    def kill(step: Step, batch: int) -> None:
        if (step, batch) == (Step.WRITTEN, 1) and not killed:
            killed.append(_leader(servers, sink))
            three_nodes.kill(killed[0])

    rows = stream(spark, servers, source, maxOffsetsPerTrigger=str(BATCH_ROWS)).select("value", "partition")
    outcomes = Run(servers, tmp_path, sink, driver_rows_max=driver_rows_max).over(rows, on_step=kill)
    assert killed
    assert len(outcomes) >= BATCHES
    assert {outcome.path == "driver" for outcome in outcomes} == {bool(driver_rows_max)}
    assert texts(servers, sink) == sorted(values)


def _replicated(servers: str, *topics: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": servers})
    wanted = [admin.NewTopic(topic, 3, 3, config={"min.insync.replicas": "2"}) for topic in topics]
    for future in client.create_topics(wanted).values():
        future.result(TIMEOUT_S)
    wait_for(lambda: set(topics) <= set(client.list_topics(timeout=TIMEOUT_S).topics))


def _leader(servers: str, topic: str) -> int:
    client = admin.AdminClient({"bootstrap.servers": servers})
    leader: int = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0].leader
    return leader
