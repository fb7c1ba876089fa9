"""The batch reader through Spark: a topic, or a range of it, as a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def table(spark: SparkSession, log: Log, topic: str, **options: object) -> DataFrame:
    return spark.read.format("oncestream").options(**log.options(topic, **options)).load()


def test_a_topic_is_a_table_with_the_columns_of_sparks_own_source(spark: SparkSession, log: Log) -> None:
    topic = log.topic(2)
    log.write(topic, ["a", "b"], partition=0, key="k", time_ms=1_700_000_000_123)
    log.transaction(topic, ["gone"], partition=1, ends="abort")
    log.transaction(topic, ["c"], partition=1)
    rows = table(spark, log, topic)
    assert rows.columns == COLUMNS
    found = rows.selectExpr("string(key)", "string(value)", "topic", "partition", "offset", "timestampType")
    assert sorted(map(tuple, found.collect()), key=lambda row: row[3:5]) == [
        ("k", "a", topic, 0, 0, 0),
        ("k", "b", topic, 0, 1, 0),
        (None, "c", topic, 1, 2, 0),
    ]
    [instant] = rows.where("offset = 0").selectExpr("unix_millis(timestamp)").collect()
    assert instant[0] == 1_700_000_000_123


def test_a_range_is_cut_out_by_offsets_and_by_time(spark: SparkSession, log: Log) -> None:
    topic = log.topic()
    for second in range(10):
        log.write(topic, [str(second)], time_ms=1_700_000_000_000 + second * 1000)
    start, end = json.dumps({topic: {"0": 2}}), json.dumps({topic: {"0": 5}})
    by_offset = table(spark, log, topic, startingOffsets=start, endingOffsets=end)
    assert [row.offset for row in by_offset.collect()] == [2, 3, 4]
    by_time = table(spark, log, topic, startingTimestamp=1_700_000_003_000, endingTimestamp=1_700_000_007_000)
    assert [row.offset for row in by_time.collect()] == [3, 4, 5, 6]


def test_an_end_that_is_not_there_yet_is_refused(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic()
    embedded_log.write(topic, ["v"])
    with pytest.raises(Exception, match=f"{topic}-0 would end at 5 and can be read up to 1"):
        table(spark, embedded_log, topic, endingOffsets=json.dumps({topic: {"0": 5}})).collect()


def test_headers_come_where_asked_for(spark: SparkSession, log: Log) -> None:
    topic = log.topic()
    log.write(topic, ["v"], headers=[("trace", b"1")])
    log.write(topic, ["w"])
    rows = table(spark, log, topic, includeHeaders="true").orderBy("offset").collect()
    assert [[tuple(header) for header in row.headers or []] for row in rows] == [[("trace", b"1")], []]


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, log: Log) -> None:
    assert table(spark, log, log.topic(3)).count() == 0


def test_a_big_table_is_spread_over_tasks(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic()
    embedded_log.write(topic, map(str, range(5_000)))
    rows = table(spark, embedded_log, topic, minPartitions=4)
    assert rows.rdd.getNumPartitions() == 4
    assert sorted(int(row.value) for row in rows.select("value").collect()) == list(range(5_000))


def test_an_unknown_option_is_named_in_sparks_error(spark: SparkSession, embedded_log: Log) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"no option nosuch.*subscribePattern"):
        table(spark, embedded_log, "t", noSuch="1").collect()
