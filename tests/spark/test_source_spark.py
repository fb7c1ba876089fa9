"""The stream through Spark: batches small and big, restarts, triggers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.source_kit import TIMEOUT_S, Log, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Batches = dict[int, list[str]]


def start(
    spark: SparkSession,
    log: Log,
    topic: str,
    checkpoint: Path,
    each: Callable[[DataFrame, int], None],
    trigger: dict[str, Any] | None = None,
    **options: object,
) -> StreamingQuery:
    rows = spark.readStream.format("oncestream").options(**log.options(topic, **options)).load()
    writer = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def into(batches: Batches) -> Callable[[DataFrame, int], None]:
    def each(rows: DataFrame, number: int) -> None:
        batches[number] = [row.value.decode() for row in rows.select("value").collect()]

    return each


def available(spark: SparkSession, log: Log, topic: str, checkpoint: Path, **options: object) -> Batches:
    batches: Batches = {}
    query = start(spark, log, topic, checkpoint, into(batches), {"availableNow": True}, **options)
    assert query.awaitTermination(TIMEOUT_S)
    return batches


def test_a_run_over_what_is_there_goes_on_where_the_last_one_ended(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    topic = log.topic(2)
    log.write(topic, [f"a{number}" for number in range(10)], partition=0)
    log.transaction(topic, ["aborted"], partition=1, ends="abort")
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    first = available(spark, log, topic, tmp_path, **options)
    assert len(first) >= 2
    assert [value for batch in first.values() for value in batch] == [f"a{number}" for number in range(10)]
    log.write(topic, ["b0", "b1"], partition=1)
    second = available(spark, log, topic, tmp_path, **options)
    assert [value for batch in second.values() for value in batch] == ["b0", "b1"]
    assert min(second) == max(first) + 1


@pytest.mark.parametrize("count", [50, 30_000], ids=["small", "big"])
def test_a_batch_that_failed_is_read_again_the_same_after_a_restart(
    spark: SparkSession, log: Log, tmp_path: Path, count: int
) -> None:
    topic = log.topic(2)
    log.write(topic, ["old"] * 5)
    seen: Batches = {}

    def fail(rows: DataFrame, number: int) -> None:
        into(seen)(rows, number)
        if seen[number]:
            raise ValueError("the first run fails on purpose")

    query = start(spark, log, topic, tmp_path, fail)
    wait_for(lambda: 0 in seen)
    written = [f"v{number}" for number in range(count)]
    log.transaction(topic, written, partition=1)
    with pytest.raises(Exception, match="fails on purpose"):
        query.awaitTermination(TIMEOUT_S)
    log.write(topic, ["later"])
    batches = available(spark, log, topic, tmp_path)
    assert batches[max(seen)] == seen[max(seen)]
    assert sorted(value for batch in batches.values() for value in batch) == sorted([*written, "later"])


def test_a_stream_from_latest_that_fails_in_its_first_batch_keeps_its_start(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Spark asks for the start of the first batch a second time, when `latest` has moved."""
    topic = log.topic()
    log.write(topic, ["old"] * 5)

    def fail(rows: DataFrame, number: int) -> None:
        raise ValueError("the first batch fails on purpose")

    with pytest.raises(Exception, match="fails on purpose"):
        start(spark, log, topic, tmp_path, fail).awaitTermination(TIMEOUT_S)
    log.write(topic, ["meanwhile"])
    assert available(spark, log, topic, tmp_path) == {0: [], 1: ["meanwhile"]}


def test_small_and_big_batches_follow_each_other_without_gap_or_double(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    log, topic = embedded_log, embedded_log.topic(3)
    batches: Batches = {}
    query = start(spark, log, topic, tmp_path, into(batches), startingOffsets="earliest")
    expected: list[str] = []
    for round_number, count in enumerate([1, 25_000, 3, 2_000, 40_000, 10]):
        values = [f"{round_number}-{number}" for number in range(count)]
        log.write(topic, values, partition=round_number % 3)
        expected += values
        wait_for(lambda: sum(map(len, batches.values())) >= len(expected))  # noqa: B023
    query.stop()
    assert sorted(value for batch in batches.values() for value in batch) == sorted(expected)


def test_the_checkpoint_tells_offsets_in_the_form_that_pipelines_read(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    topic = embedded_log.topic(12)
    embedded_log.write(topic, ["v"], partition=11)
    available(spark, embedded_log, topic, tmp_path, startingOffsets="earliest")
    offset = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[2])
    assert list(offset["offsets"][topic]) == [str(number) for number in range(12)]
    assert offset["offsets"][topic]["11"] == 1
    assert offset["cluster"]


def test_data_loss_is_told_in_sparks_error(spark: SparkSession, embedded_log: Log, tmp_path: Path) -> None:
    topic = embedded_log.topic()
    embedded_log.write(topic, ["v"] * 3)
    available(spark, embedded_log, topic, tmp_path, startingOffsets="earliest")
    embedded_log.write(topic, ["w"] * 3)
    embedded_log.forget_before(topic, 5)
    with pytest.raises(Exception, match=f"{topic}-0 from offset 3 on cannot be read"):
        available(spark, embedded_log, topic, tmp_path, startingOffsets="earliest")
    assert available(spark, embedded_log, topic, tmp_path, failOnDataLoss="false")[1] == ["w"]


def test_queries_that_start_at_once_find_the_variables_they_share_complete(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    """Spark's runners put them into one HashMap without a lock: a new key from two threads would damage it."""
    from oncestream.spark.session import ADDED_BY_RUNNERS

    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    topic = embedded_log.topic(1)
    embedded_log.write(topic, ["a"])
    assert available(spark, embedded_log, topic, tmp_path, startingOffsets="earliest")
    shared = set(manager.lookupDataSource("oncestream").dataSourceCls().envVars().keySet())
    assert shared == {*spark.sparkContext.environment, *ADDED_BY_RUNNERS}
