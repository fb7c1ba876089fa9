"""Batch DataFrames, loaded once per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncestream.errors import BatchFailed, TooManyDeadLetters
from tests.spark.sink_kit import committed, load, new_name, rows, texts
from tests.spark.source_kit import Log, log_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_run_is_loaded_once_however_often_it_is_asked_for(spark: SparkSession, log: Log) -> None:
    topic, pipeline = log.topic(3), new_name()
    df = spark.range(0, 1_000, numPartitions=5).selectExpr(
        "cast(id as string) as key", "cast(id as string) as value"
    )
    first = load(df, log.bootstrap, topic, pipeline=pipeline, run="monday")
    again = load(df, log.bootstrap, topic, pipeline=pipeline, run="monday")
    assert (first.rows, first.skipped) == (1_000, False)
    assert (again.rows, again.skipped) == (0, True)
    assert texts(log.bootstrap, topic) == sorted(str(number) for number in range(1_000))
    load(df.limit(1), log.bootstrap, topic, pipeline=pipeline, run="tuesday")
    load(df.limit(1), log.bootstrap, topic, pipeline=new_name(), run="monday")
    assert len(committed(log.bootstrap, topic)) == 1_002


def test_a_load_that_fails_half_way_leaves_nothing_to_see_and_can_be_loaded_then(
    spark: SparkSession, log: Log
) -> None:
    topic, pipeline = log.topic(2), new_name()
    numbers = spark.range(0, 40_000, numPartitions=2)
    broken = numbers.selectExpr(
        "if(id = 39999, raise_error('the last row is broken'), repeat(cast(id as string), 50)) as value"
    )
    with pytest.raises(BatchFailed, match="the last row is broken"):
        load(broken, log.bootstrap, topic, pipeline=pipeline)
    assert sum(log_ends(log.bootstrap, topic).values()) > 0, "the test should see rows that were aborted"
    assert committed(log.bootstrap, topic) == []
    load(numbers.selectExpr("cast(id as string) as value"), log.bootstrap, topic, pipeline=pipeline)
    assert texts(log.bootstrap, topic) == sorted(str(number) for number in range(40_000))


def test_a_load_with_too_many_dead_letters_writes_nothing(spark: SparkSession, embedded_log: Log) -> None:
    topic, pipeline = embedded_log.topic(1), new_name()
    df = rows(spark, [("a", None), ("b", "bad"), ("c", "bad")], "value string, error string")
    with pytest.raises(TooManyDeadLetters, match="1 are allowed; the first: bad"):
        load(df, embedded_log.bootstrap, topic, pipeline=pipeline, dead_letters_max=1)
    assert committed(embedded_log.bootstrap, topic) == []
    assert load(df, embedded_log.bootstrap, topic, pipeline=pipeline, dead_letters_max=2).rows == 1


def test_repeated_rows_of_a_load_are_dropped(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(1)
    df = rows(spark, [("1", "a"), ("1", "a"), ("2", "b")], "id string, value string")
    load(df, embedded_log.bootstrap, topic, dedupe="id")
    assert texts(embedded_log.bootstrap, topic) == ["a", "b"]


def test_a_batch_of_the_source_is_loaded_too(spark: SparkSession, log: Log) -> None:
    source, sink = log.topic(2), log.topic(2)
    log.write(source, ["a", "b"], partition=0)
    log.transaction(source, ["aborted"], partition=1, ends="abort")
    log.write(source, ["c"], partition=1)
    reader = spark.read.format("oncestream").option("kafka.bootstrap.servers", log.bootstrap)
    load(reader.option("subscribe", source).load(), log.bootstrap, sink)
    assert texts(log.bootstrap, sink) == ["a", "b", "c"]
