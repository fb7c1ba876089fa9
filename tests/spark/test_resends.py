"""`dedupe="oncestream.producer"`: a pipeline drops what a named producer has sent again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oncestream as once
from oncestream.errors import BadPipeline
from oncestream.messaging.producer import Producer
from tests.spark.sink_kit import new_name, texts
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_what_a_named_producer_sends_again_after_a_restart_is_dropped(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    source, sink, bootstrap = embedded_log.topic(2), embedded_log.topic(1), embedded_log.bootstrap

    @once.pipeline(source=source, sink=sink, name=new_name(), dedupe="oncestream.producer")
    def copy(rows: DataFrame) -> DataFrame:
        return rows.select("value")

    expected = []
    for sent in (6, 10):  # the second run sends its input from the start, as after a crash
        with Producer(bootstrap, name="press") as producer:
            for number in range(sent):
                producer.send(source, f"press {number}", partition=number % 2, sequence=number)
        with Producer(bootstrap, name="saw") as producer:
            producer.send(source, "saw", partition=0)  # numbered by the log: never a resend
        with Producer(bootstrap) as nameless:
            nameless.send(source, "nameless", partition=0)
        expected += ["nameless", "saw"]
        copy.run(spark, bootstrap_servers=bootstrap, checkpoint=tmp_path / "checkpoint", trigger="once")
    expected += [f"press {number}" for number in range(10)]
    assert sorted(texts(bootstrap, sink)) == sorted(expected)


def test_it_needs_the_headers(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    with pytest.raises(BadPipeline, match="needs the columns topic, partition, offset, headers"):
        once.write(
            rows,
            topic="t",
            pipeline="p",
            checkpoint=tmp_path,
            dedupe="oncestream.producer",
            bootstrap_servers="127.0.0.1:1",
        )
