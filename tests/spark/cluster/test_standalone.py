"""A pipeline on a standalone master and worker, whose executors have nothing of ours."""

from __future__ import annotations

from pathlib import Path

from tests.spark.cluster.driver import Kind, Work
from tests.spark.cluster.kit import Driver
from tests.spark.sink_kit import new_name, texts
from tests.spark.source_kit import Log
from tests.spark.standalone import standalone_cluster

SETTINGS = {"spark.executor.memory": "1g", "spark.cores.max": "2"}


def test_a_pipeline_runs_on_a_standalone_cluster(embedded_log: Log, tmp_path: Path) -> None:
    log, source, sink = embedded_log, embedded_log.topic(2), embedded_log.topic(2)
    for partition in range(2):
        log.write(source, [f"row {number}" for number in range(partition, 20_000, 2)], partition=partition)
    with standalone_cluster(tmp_path) as master, Driver(tmp_path, master, SETTINGS) as driver:
        name = new_name()
        driver.start(Work(Kind.UPPER, log.bootstrap, source, sink, str(tmp_path / "checkpoint"), name=name))
        (outcome,) = driver.finish()
    assert outcome["rows"] == 20_000
    assert texts(log.bootstrap, sink) == sorted(f"ROW {number}" for number in range(20_000))
