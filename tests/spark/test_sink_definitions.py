"""A definition that cannot work says why, before anything is read or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import oncestream as once
from oncestream.errors import BadPipeline, BadSetting, BrokerUnreachable, OncestreamError, UnsafeSparkSetting
from tests.spark.sink_kit import load, new_name, rows, stream
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMAS = [
    ("key string", "no column 'value', only key"),
    ("value int", "column 'value' is int, it must be string or binary"),
    ("value string, key double", "column 'key' is double, it must be string or binary"),
    ("value string, headers string", "column 'headers' is string"),
    ("value string, timestamp string", "column 'timestamp' is string, it must be timestamp"),
    ("value string, partition string", "column 'partition' is string, it must be integer"),
    ("value string, error int", "column 'error' is int, it must be string"),
]


@pytest.mark.parametrize(("schema", "reason"), SCHEMAS)
def test_columns_that_are_missing_or_of_a_wrong_type_are_named(
    spark: SparkSession, embedded_log: Log, schema: str, reason: str
) -> None:
    with pytest.raises(BadPipeline, match="cannot run") as raised:
        load(rows(spark, [], schema), embedded_log.bootstrap, "nowhere")
    assert reason in str(raised.value)


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"delivery": "twice"}, "delivery='twice', it must be one of exactly-once, at-least-once, at-most-once"),
    ({"compression": "zip"}, "compression='zip', it must be one of none, gzip, snappy, lz4, zstd"),
    ({"partition_by": "moon"}, "partition_by='moon', it must be one of auto, column, key, round-robin"),
    ({"partition_by": "column"}, "partition_by='column' needs a column 'partition'"),
    ({"dedupe": "id"}, "dedupe='id' is no column of value"),
]


@pytest.mark.parametrize(("options", "reason"), OPTIONS)
def test_an_option_that_cannot_be_is_named_with_what_it_may_be(
    spark: SparkSession, embedded_log: Log, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadPipeline) as raised:
        load(rows(spark, [], "value string"), embedded_log.bootstrap, "nowhere", **options)
    assert reason in str(raised.value)


@pytest.mark.parametrize("name", ["", "has space", "/slash", "x" * 201, "-dash"])
def test_a_name_that_cannot_be_a_transactional_id_is_refused(
    spark: SparkSession, embedded_log: Log, name: str
) -> None:
    with pytest.raises(BadPipeline, match="its name must be letters"):
        once.write(
            rows(spark, [], "value string"),
            pipeline=name,
            topic="nowhere",
            run="1",
            bootstrap_servers=embedded_log.bootstrap,
        )


def test_an_unknown_option_is_refused_by_name(spark: SparkSession, embedded_log: Log) -> None:
    unknown: dict[str, Any] = {"partitions_by": "key"}
    with pytest.raises((TypeError, OncestreamError), match="partitions_by"):
        load(rows(spark, [], "value string"), embedded_log.bootstrap, "nowhere", **unknown)


def test_an_unknown_kafka_setting_is_refused_by_name(spark: SparkSession, embedded_log: Log) -> None:
    with pytest.raises(BadSetting, match=r"sasl\.mechanismus"):
        load(
            rows(spark, [], "value string"),
            embedded_log.bootstrap,
            "nowhere",
            settings={"sasl.mechanismus": "PLAIN"},
        )


def test_rows_without_any_topic_are_refused(spark: SparkSession, embedded_log: Log) -> None:
    with pytest.raises(BadPipeline, match="neither a topic is given nor have the rows a column 'topic'"):
        load(rows(spark, [], "value string"), embedded_log.bootstrap, None)


def test_a_batch_needs_a_run_and_a_stream_takes_none(spark: SparkSession, embedded_log: Log) -> None:
    with pytest.raises(BadPipeline, match="a batch DataFrame needs run="):
        once.write(rows(spark, [], "value string"), pipeline=new_name(), topic="nowhere")
    df = stream(spark, embedded_log.bootstrap, "nowhere")
    with pytest.raises(BadPipeline, match="run= is for batch DataFrames"):
        once.write(df, pipeline=new_name(), topic="nowhere", run="1")


def test_an_unsafe_spark_session_is_refused(embedded_log: Log) -> None:
    class Unsafe:
        """Stands for a DataFrame, its session and the context: a process has one of those, which is safe."""

        isStreaming = False  # noqa: N815
        _jdf = None

        @property
        def sparkSession(self) -> Unsafe:  # noqa: N802
            return self

        sparkContext = sparkSession  # noqa: N815

        def getConf(self) -> dict[str, str]:  # noqa: N802
            return {"spark.speculation": "true"}

    with pytest.raises(UnsafeSparkSetting, match=r"spark\.speculation is true, which breaks exactly-once"):
        load(cast("DataFrame", Unsafe()), embedded_log.bootstrap, "nowhere")


def test_a_broker_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 "):
        load(
            rows(spark, [], "value string"),
            "127.0.0.1:1",
            "nowhere",
            settings={"default.api.timeout.ms": "500"},
        )


def test_rows_and_dead_letters_cannot_go_to_the_same_topic(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(1)
    df = rows(spark, [("a", None), ("b", "bad")], "value string, error string")
    with pytest.raises(BadPipeline, match="its rows and its dead letters both go to"):
        load(df, embedded_log.bootstrap, topic, dead_letters=topic)


def test_a_pipeline_whose_function_returns_no_dataframe_says_so(
    spark: SparkSession, embedded_log: Log
) -> None:
    @once.pipeline(source=embedded_log.topic(1), sink="nowhere", bootstrap_servers=embedded_log.bootstrap)
    def forgets_to_return(rows: DataFrame) -> DataFrame:
        return None  # type: ignore[return-value]

    with pytest.raises(BadPipeline, match="its function returned NoneType, not a DataFrame"):
        forgets_to_return.start(spark)


def test_a_source_that_is_no_stream_is_refused(spark: SparkSession, embedded_log: Log) -> None:
    @once.pipeline(
        source=lambda spark: spark.range(1), sink="nowhere", bootstrap_servers=embedded_log.bootstrap
    )
    def reads_a_table(rows: DataFrame) -> DataFrame:
        return rows

    with pytest.raises(BadPipeline, match="source 'input' is no stream"):
        reads_a_table.start(spark)
