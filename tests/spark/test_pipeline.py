"""`@pipeline`: functions that become pipelines, their sources, their names, their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

import oncestream as once
from oncestream.client.cluster import cluster_of
from oncestream.client.lag import group_lags, total_records
from oncestream.client.settings import ClientSettings
from oncestream.errors import CheckpointLost
from tests.spark.sink_kit import dead_rows, new_name, texts
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oncestream.spark.pipeline import Pipeline

Runner = Callable[["Pipeline", str], None]


@pytest.fixture
def run(spark: SparkSession, embedded_log: Log, tmp_path: Path) -> Runner:
    """Runs a pipeline over all there is, with a checkpoint of the given name."""

    def call(pipeline: Pipeline, checkpoint: str = "checkpoint") -> None:
        pipeline.run(
            spark,
            bootstrap_servers=embedded_log.bootstrap,
            checkpoint=tmp_path / pipeline.name / checkpoint,
            trigger="once",
        )

    return call


def upper(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("upper(cast(value as string)) as value")


def test_a_decorated_function_is_still_that_function(spark: SparkSession) -> None:
    @once.pipeline(source="in", sink="out")
    def load_files(rows: DataFrame) -> DataFrame:
        return upper(rows)

    assert load_files.name == "load-files"
    given = spark.createDataFrame([("a",)], "value string")
    assert [row.value for row in load_files(given).collect()] == ["A"]


def test_it_runs_again_and_again_over_what_is_new_and_any_tool_sees_its_lag(
    run: Runner, embedded_log: Log
) -> None:
    source, sink = embedded_log.topic(2), embedded_log.topic(1)
    pipeline = once.pipeline(source=source, sink=sink, name=new_name())(upper)
    cluster = cluster_of(ClientSettings.of(embedded_log.bootstrap))
    embedded_log.write(source, ["a", "b"], partition=0)
    run(pipeline, "checkpoint")
    assert total_records(group_lags(cluster, pipeline.name)) == 0
    embedded_log.write(source, ["c"], partition=1)
    assert total_records(group_lags(cluster, pipeline.name)) == 1
    run(pipeline, "checkpoint")
    run(pipeline, "checkpoint")
    assert total_records(group_lags(cluster, pipeline.name)) == 0
    assert texts(embedded_log.bootstrap, sink) == ["A", "B", "C"]


def test_a_lost_checkpoint_costs_a_stateless_pipeline_nothing(run: Runner, embedded_log: Log) -> None:
    source, sink = embedded_log.topic(2), embedded_log.topic(1)
    pipeline = once.pipeline(source=source, sink=sink, name=new_name())(upper)
    embedded_log.write(source, ["a", "b"], partition=0)
    run(pipeline, "first")
    embedded_log.write(source, ["c"], partition=1)
    run(pipeline, "second")
    assert texts(embedded_log.bootstrap, sink) == ["A", "B", "C"]


def test_a_lost_checkpoint_stops_a_pipeline_with_state(run: Runner, embedded_log: Log) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    pipeline = once.pipeline(source=source, sink=sink, name=new_name(), dedupe="value")(upper)
    embedded_log.write(source, ["a", "a"])
    run(pipeline, "first")
    with pytest.raises(CheckpointLost, match="its state was in that checkpoint"):
        run(pipeline, "second")
    run(pipeline, "first")
    assert texts(embedded_log.bootstrap, sink) == ["A"]


def test_several_sources_come_as_parameters_of_their_names(run: Runner, embedded_log: Log) -> None:
    people, cities, sink = (embedded_log.topic(1) for _ in range(3))
    embedded_log.write(people, ["Ann"], key="1")
    embedded_log.write(cities, ["Oslo"], key="1")

    @once.pipeline(source={"cities": cities, "people": people}, sink=sink, name=new_name())
    def join(people: DataFrame, cities: DataFrame) -> DataFrame:
        named = people.selectExpr("key", "value as name")
        placed = cities.selectExpr("key", "value as city")
        return named.join(placed, "key").selectExpr("concat(name, ' ', city) as value")

    run(join, "checkpoint")
    assert texts(embedded_log.bootstrap, sink) == ["Ann Oslo"]


def test_repetitions_are_dropped_by_a_column_that_only_the_input_has(run: Runner, embedded_log: Log) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    pipeline = once.pipeline(source=source, sink=sink, name=new_name(), dedupe="key")(upper)
    for key, value in (("1", "a"), ("2", "b"), ("1", "again")):
        embedded_log.write(source, [value], key=key)
    run(pipeline, "checkpoint")
    assert texts(embedded_log.bootstrap, sink) == ["A", "B"]


def test_files_are_a_source_and_a_broken_line_is_a_dead_letter(
    run: Runner, embedded_log: Log, tmp_path: Path
) -> None:
    sink, inbox = embedded_log.topic(1), tmp_path / "in"
    inbox.mkdir()
    (inbox / "amounts.txt").write_text("1\n2\nthree\n")

    def double(row: Row) -> str:
        return str(int(row.value) * 2)

    @once.pipeline(source=lambda spark: spark.readStream.text(str(inbox)), sink=sink, name=new_name())
    def doubled(lines: DataFrame) -> DataFrame:
        return lines.transform(once.each(double))

    run(doubled, "checkpoint")
    assert texts(embedded_log.bootstrap, sink) == ["2", "4"]
    (dead,) = dead_rows(embedded_log.bootstrap, sink)
    assert dead.text == "three"


class Counter(StatefulProcessor):
    """Tells how often each key has come."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", StructType([StructField("total", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._total.get()
        total = (before[0] if before else 0) + sum(1 for _ in rows)
        self._total.update((total,))
        yield Row(value=f"{key[0]} {total}")

    def close(self) -> None:
        pass


def test_transform_with_state_keeps_its_state_over_runs(
    spark: SparkSession, run: Runner, embedded_log: Log
) -> None:
    pytest.importorskip("google.protobuf", reason="Spark's transformWithState needs protobuf")
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)

    @once.pipeline(source=source, sink=sink, name=new_name(), output_mode="update")
    def counted(rows: DataFrame) -> DataFrame:
        names = rows.selectExpr("cast(value as string) as name").groupBy("name")
        schema = StructType().add("value", "string")
        return names.transformWithState(Counter(), schema, "Update", "None")

    try:
        embedded_log.write(source, ["a", "b", "a"])
        run(counted, "checkpoint")
        embedded_log.write(source, ["a"])
        run(counted, "checkpoint")
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    assert texts(embedded_log.bootstrap, sink) == ["a 2", "a 3", "b 1"]
