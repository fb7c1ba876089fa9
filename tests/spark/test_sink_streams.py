"""Streams of several kinds through the sink: promises, repetitions, joins, files, state; which path rows take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from oncestream.client.cluster import cluster_of
from oncestream.client.offsets import committed_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import TooManyDeadLetters
from oncestream.spark.batch import Step
from oncestream.spark.progress import pipeline_key, read_record
from tests.spark.sink_kit import Run, committed, new_name, stream, texts
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState


class Crash(Exception):
    """What a test raises at a step of a batch."""


def crash_at(step: Step, batch: int) -> Callable[[Step, int], None]:
    def on_step(at: Step, number: int) -> None:
        if (at, number) == (step, batch):
            raise Crash

    return on_step


# Where each promise is in the middle of a batch, and what a crash there may do to its rows.
CRASHES = [
    ("exactly-once", Step.WRITTEN, ["a", "b", "c"]),
    ("exactly-once", Step.COMMITTED, ["a", "b", "c"]),
    ("at-least-once", Step.WRITTEN, ["a", "b", "b", "c"]),
    ("at-least-once", Step.COMMITTED, ["a", "b", "c"]),
    ("at-most-once", Step.COMMITTED, ["a", "c"]),
    ("at-most-once", Step.WRITTEN, ["a", "b", "c"]),
]


@pytest.mark.parametrize(("delivery", "step", "expected"), CRASHES)
def test_each_delivery_keeps_its_promise_over_a_crash(
    spark: SparkSession, log: Log, tmp_path: Path, delivery: str, step: Step, expected: list[str]
) -> None:
    source, sink = log.topic(1), log.topic(1)
    run = Run(log.bootstrap, tmp_path, sink, delivery=delivery, attempts_max=1)
    log.write(source, ["a"])
    run.over(stream(spark, log.bootstrap, source))
    log.write(source, ["b"])
    with pytest.raises(Exception, match=r"Crash|failed 1 times"):
        run.over(stream(spark, log.bootstrap, source), on_step=crash_at(step, 1))
    log.write(source, ["c"])
    run.over(stream(spark, log.bootstrap, source))
    assert texts(log.bootstrap, sink) == expected
    assert _group_offset(log, run.name, source) == 3


def test_too_many_dead_letters_stop_a_pipeline_that_promises_less(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    for delivery in ("at-least-once", "at-most-once"):
        source, sink = embedded_log.topic(1), embedded_log.topic(1)
        embedded_log.write(source, ["a", "b"])
        df = stream(spark, embedded_log.bootstrap, source).selectExpr("value", "'bad' as error")
        run = Run(embedded_log.bootstrap, tmp_path / delivery, sink, delivery=delivery, dead_letters_max=1)
        with pytest.raises(TooManyDeadLetters, match="1 are allowed; the first: bad"):
            run.over(df)


def test_files_read_at_most_once_keep_their_progress_in_kafka(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    sink, inbox = embedded_log.topic(1), tmp_path / "in"
    inbox.mkdir()
    (inbox / "1.txt").write_text("a\nb\n")
    run = Run(embedded_log.bootstrap, tmp_path / "checkpoint", sink, delivery="at-most-once")
    run.over(spark.readStream.text(str(inbox)))
    assert texts(embedded_log.bootstrap, sink) == ["a", "b"]
    record = read_record(cluster_of(ClientSettings.of(embedded_log.bootstrap)), pipeline_key(run.name))
    assert record is not None
    assert len(record["sources"]) == 1


def test_a_failed_attempt_is_run_again_in_the_same_batch(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    source, sink = log.topic(1), log.topic(1)
    log.write(source, ["a", "b"])
    seen: list[Step] = []

    def on_step(step: Step, batch: int) -> None:
        seen.append(step)
        if seen.count(Step.OFFSETS_ADDED) == 1 and step == Step.OFFSETS_ADDED:
            raise Crash

    (done,) = Run(log.bootstrap, tmp_path, sink).over(stream(spark, log.bootstrap, source), on_step=on_step)
    assert done.attempts == 2
    assert texts(log.bootstrap, sink) == ["a", "b"]


def test_repeated_rows_are_dropped_in_a_batch_and_over_batches(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    run = Run(embedded_log.bootstrap, tmp_path, sink, dedupe="value")
    for values in (["a", "b", "a"], ["b", "c"]):
        embedded_log.write(source, values)
        run.over(stream(spark, embedded_log.bootstrap, source))
    assert texts(embedded_log.bootstrap, sink) == ["a", "b", "c"]


def test_repetitions_are_remembered_as_long_as_asked(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    run = Run(embedded_log.bootstrap, tmp_path, sink, dedupe="key", dedupe_within="10 seconds")
    begun_ms = int(time.time() - 3600) * 1000  # records of long ago would be deleted
    for second, value in ((0, "first"), (5, "soon"), (60, "other"), (61, "late")):
        key = "other" if value == "other" else "k"
        embedded_log.write(source, [value], key=key, time_ms=begun_ms + second * 1000)
        run.over(stream(spark, embedded_log.bootstrap, source))
    assert texts(embedded_log.bootstrap, sink) == ["first", "late", "other"]


def test_streams_are_united_and_the_group_tells_the_offsets_of_both(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    left, right, sink = log.topic(1), log.topic(2), log.topic(1)
    log.write(left, ["a", "b"])
    log.write(right, ["c"], partition=1)
    run = Run(log.bootstrap, tmp_path, sink)
    both = [stream(spark, log.bootstrap, topic).select("value") for topic in (left, right)]
    run.over(both[0].union(both[1]))
    assert texts(log.bootstrap, sink) == ["a", "b", "c"]
    offsets = committed_offsets(cluster_of(ClientSettings.of(log.bootstrap)), run.name)
    assert {at: entry.offset for at, entry in offsets.items()} == {
        TopicPartition(left, 0): 2,
        TopicPartition(right, 0): 0,
        TopicPartition(right, 1): 1,
    }


def test_streams_are_joined_over_batches(spark: SparkSession, embedded_log: Log, tmp_path: Path) -> None:
    left, right, sink = (embedded_log.topic(1) for _ in range(3))
    run = Run(embedded_log.bootstrap, tmp_path, sink)

    def joined() -> DataFrame:
        ours = stream(spark, embedded_log.bootstrap, left).selectExpr("key", "value as ours")
        theirs = stream(spark, embedded_log.bootstrap, right).selectExpr("key", "value as theirs")
        return ours.join(theirs, "key").selectExpr("key", "concat(ours, theirs) as value")

    embedded_log.write(left, ["a"], key="1")
    run.over(joined())
    embedded_log.write(right, ["x", "y"], key="1")
    embedded_log.write(left, ["b"], key="1")
    run.over(joined())
    assert texts(embedded_log.bootstrap, sink) == ["ax", "ay", "bx", "by"]


def test_files_are_read_once_and_their_progress_is_kept_in_kafka(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    sink, inbox = log.topic(1), tmp_path / "in"
    inbox.mkdir()
    run = Run(log.bootstrap, tmp_path / "checkpoint", sink)

    def lines() -> DataFrame:
        csv = spark.readStream.schema("name string, amount int").csv(str(inbox))
        return csv.selectExpr("name as key", "concat(name, ' ', amount) as value")

    (inbox / "1.csv").write_text("Ann,1\nBob,2\n")
    run.over(lines())
    (inbox / "2.csv").write_text("Cy,3\n")
    with pytest.raises(Exception, match="failed 1 times"):
        run.over(lines(), on_step=crash_at(Step.OFFSETS_ADDED, 1), attempts_max=1)
    run.over(lines())
    assert texts(log.bootstrap, sink) == ["Ann 1", "Bob 2", "Cy 3"]
    record = read_record(cluster_of(ClientSettings.of(log.bootstrap)), pipeline_key(run.name))
    assert record is not None
    assert record["batch"] == 1
    assert len(record["sources"]) == 1


def test_state_of_the_users_own_lives_on_over_batches(
    spark: SparkSession, embedded_log: Log, tmp_path: Path
) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)

    def count(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"value": [f"{key[0]} {total}"]})

    def counted() -> DataFrame:
        names = stream(spark, embedded_log.bootstrap, source).selectExpr("cast(value as string) as name")
        return names.groupBy("name").applyInPandasWithState(
            count, "value string", "total long", "append", "NoTimeout"
        )

    run = Run(embedded_log.bootstrap, tmp_path, sink)
    embedded_log.write(source, ["a", "b", "a"])
    run.over(counted())
    embedded_log.write(source, ["a"])
    run.over(counted())
    assert texts(embedded_log.bootstrap, sink) == ["a 2", "a 3", "b 1"]


def test_tasks_that_keep_partitions_write_without_a_shuffle(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    source, sink = _many_keys(log, partitions=4), log.topic(4)
    df = stream(spark, log.bootstrap, source, minPartitions="4")
    (done,) = Run(log.bootstrap, tmp_path, sink, driver_rows_max=0).over(df)
    assert done.path == "tasks"
    assert _content(log, sink) == _content(log, source)


def test_keys_that_meet_from_several_tasks_are_shuffled_and_keep_their_order(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    source, sink = _many_keys(log, partitions=4), log.topic(3)
    df = stream(spark, log.bootstrap, source).drop("partition")
    (done,) = Run(log.bootstrap, tmp_path, sink, driver_rows_max=0, partition_by="key").over(df)
    assert done.path == "tasks, shuffled"
    found = committed(log.bootstrap, sink)
    assert sorted(record.text for record in found) == texts(log.bootstrap, source)
    homes = {(record.key, record.partition) for record in found}
    assert len(homes) == len({record.key for record in found}), "a key in two partitions"


def test_tasks_that_write_to_one_partition_are_found_out_and_the_batch_is_shuffled(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """As many tasks as partitions look like a map that keeps them, but these rows change places."""
    source, sink = _many_keys(log, partitions=4), log.topic(4)
    kept = stream(spark, log.bootstrap, source, minPartitions="4")
    df = kept.selectExpr("key", "value", "cast(offset % 4 as int) as partition")
    (done,) = Run(log.bootstrap, tmp_path, sink, driver_rows_max=0).over(df)
    assert done.path == "tasks, shuffled"
    assert done.attempts == 2
    assert texts(log.bootstrap, sink) == texts(log.bootstrap, source)


def _many_keys(log: Log, partitions: int) -> str:
    source = log.topic(partitions, name=new_name("keys"))
    for partition in range(partitions):
        for key in range(5):
            values = [f"{partition} {key} {number}" for number in range(600)]
            log.write(source, values, partition=partition, key=f"key-{key}")
    return source


def _content(log: Log, topic: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for record in committed(log.bootstrap, topic):
        found.setdefault(record.partition, []).append(record.text)
    return found


def _group_offset(log: Log, group: str, topic: str) -> int:
    offsets = committed_offsets(cluster_of(ClientSettings.of(log.bootstrap)), group)
    return offsets[TopicPartition(topic, 0)].offset
