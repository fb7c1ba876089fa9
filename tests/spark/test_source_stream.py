"""The stream reader, called as Spark's planner calls it, on both brokers."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from oncestream import Broker
from oncestream.errors import (
    BadSourceOption,
    CheckpointOfOtherCluster,
    NoRecordAtTime,
    SourceDataLost,
    UnknownTopic,
)
from oncestream.spark.source_options import stream_options
from oncestream.spark.stream_reader import PREFETCH_RECORDS_MAX, StreamReader
from tests.spark.source_kit import Log, batch, offsets, values, wait_for

ALL = ReadAllAvailable()
DAY_MS = 86_400_000


def numbered(count: int, word: str = "v") -> list[str]:
    return [f"{word}{number}" for number in range(count)]


def all_from(reader: StreamReader, start: dict[str, Any]) -> list[str]:
    return values(batch(reader, start, reader.latestOffset(start, ALL)))


# What is visible


def test_markers_and_aborted_records_are_passed_over(log: Log) -> None:
    topic = log.topic()
    log.transaction(topic, numbered(3, "kept"))
    log.transaction(topic, numbered(3, "aborted"), ends="abort")
    log.write(topic, ["plain"])
    log.transaction(topic, ["last"])
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    rows = batch(reader, start, end)
    assert values(rows) == [*numbered(3, "kept"), "plain", "last"]
    assert rows.column("offset").to_pylist() == [0, 1, 2, 8, 9]
    assert offsets(end, topic) == {"0": 11}
    assert reader.latestOffset(end, ALL) == end


def test_a_batch_of_nothing_but_aborted_records_moves_the_offset(log: Log) -> None:
    topic = log.topic()
    log.transaction(topic, numbered(3), ends="abort")
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert offsets(end, topic) == {"0": 4}
    assert values(batch(reader, start, end)) == []


def test_an_open_transaction_holds_back_what_follows_it(log: Log) -> None:
    topic = log.topic()
    log.write(topic, ["before"])
    open_one = log.transaction(topic, ["inside"], ends="open")
    log.write(topic, ["after"])
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert values(batch(reader, start, end)) == ["before"]
    open_one.commit_transaction(30)
    wait_for(lambda: offsets(reader.latestOffset(end, ALL), topic) == {"0": 4})
    assert all_from(reader, end) == ["inside", "after"]


def test_read_uncommitted_sees_what_is_open_and_aborted(log: Log) -> None:
    topic = log.topic()
    log.transaction(topic, ["aborted"], ends="abort")
    open_one = log.transaction(topic, ["open"], ends="open")
    reader = log.reader(topic, startingOffsets="earliest", kafka__isolation__level="read_uncommitted")
    assert all_from(reader, reader.initialOffset()) == ["aborted", "open"]
    open_one.abort_transaction(30)


def test_headers_keys_and_times_come_as_they_were_written(log: Log) -> None:
    topic = log.topic()
    log.write(topic, ["v"], key="k", time_ms=1_700_000_000_123, headers=[("h", b"1"), ("h", b"2")])
    reader = log.reader(topic, startingOffsets="earliest", includeHeaders="true")
    start = reader.initialOffset()
    [row] = batch(reader, start, reader.latestOffset(start, ALL)).to_pylist()
    assert (row["key"], row["value"], row["topic"], row["partition"], row["offset"]) == (
        b"k",
        b"v",
        topic,
        0,
        0,
    )
    assert row["timestamp"].timestamp() == pytest.approx(1_700_000_000.123)
    assert row["timestampType"] == 0
    assert row["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": b"2"}]


# Where it starts


def test_a_stream_starts_at_the_latest_offset_by_default(log: Log) -> None:
    topic = log.topic(2)
    log.write(topic, numbered(3), partition=1)
    start = log.reader(topic).initialOffset()
    assert offsets(start, topic) == {"0": 0, "1": 3}


def test_offsets_given_one_by_one_may_name_the_edges(log: Log) -> None:
    topic = log.topic(4)
    for partition in range(4):
        log.write(topic, numbered(5), partition=partition)
    given = json.dumps({topic: {"0": 2, "1": -1, "2": -2}})
    start = log.reader(topic, startingOffsets=given).initialOffset()
    assert offsets(start, topic) == {"0": 2, "1": 5, "2": 0, "3": 0}


def test_offsets_of_a_partition_that_is_not_read_are_refused(log: Log) -> None:
    topic = log.topic()
    given = json.dumps({topic: {"7": 0}})
    with pytest.raises(BadSourceOption, match="partition 7"):
        log.reader(topic, startingOffsets=given).initialOffset()


def test_a_time_finds_the_first_record_that_is_not_older(log: Log) -> None:
    topic = log.topic(2)
    for day in range(1, 6):
        for partition in range(2):
            log.write(topic, [f"day {day}"], time_ms=1_700_000_000_000 + day * DAY_MS, partition=partition)
    third = 1_700_000_000_000 + 3 * DAY_MS
    start = log.reader(topic, startingTimestamp=third - 5).initialOffset()
    assert offsets(start, topic) == {"0": 2, "1": 2}
    by_partition = json.dumps({topic: {"0": third + DAY_MS}})
    start = log.reader(topic, startingOffsetsByTimestamp=by_partition).initialOffset()
    assert offsets(start, topic) == {"0": 3, "1": 0}


def test_a_time_after_the_last_record_is_an_error_or_means_latest(log: Log) -> None:
    topic = log.topic()
    log.write(topic, ["old"], time_ms=1_700_000_000_000)
    with pytest.raises(NoRecordAtTime, match=topic):
        log.reader(topic, startingTimestamp=1_800_000_000_000).initialOffset()
    start = log.reader(
        topic, startingTimestamp=1_800_000_000_000, startingOffsetsByTimestampStrategy="latest"
    ).initialOffset()
    assert offsets(start, topic) == {"0": 1}


def test_committed_starts_where_the_group_stands_and_else_where_it_is_told_to(log: Log) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic, group = log.topic(2), uuid.uuid4().hex
    for partition in range(2):
        log.write(topic, numbered(5), partition=partition)
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    consumer.close()
    start = log.reader(topic, startingOffsets="committed", group=group).initialOffset()
    assert offsets(start, topic) == {"0": 3, "1": 0}
    late = log.reader(
        topic, startingOffsets="committed", kafka__group__id=group, kafka__auto__offset__reset="latest"
    ).initialOffset()
    assert offsets(late, topic) == {"0": 3, "1": 5}


def test_a_topic_that_is_not_there_is_an_error(log: Log) -> None:
    with pytest.raises(UnknownTopic, match="nowhere"):
        log.reader("nowhere", kafka__default__api__timeout__ms=1).initialOffset()


# How far a batch goes


def test_a_limit_is_shared_among_partitions_by_what_they_have(log: Log) -> None:
    topic = log.topic(3)
    log.write(topic, numbered(80), partition=0)
    log.write(topic, numbered(20), partition=1)
    reader = log.reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert offsets(end, topic) == {"0": 8, "1": 2, "2": 0}


def test_batches_of_a_limit_add_up_to_all_records(log: Log) -> None:
    topic = log.topic(2)
    log.write(topic, numbered(30, "a"), partition=0)
    log.write(topic, numbered(7, "b"), partition=1)
    reader = log.reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    found: list[str] = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found += values(batch(reader, start, end))
        start = end
    assert sorted(found) == sorted(numbered(30, "a") + numbered(7, "b"))


def test_a_batch_waits_for_the_least_number_of_records_or_for_the_delay(log: Log) -> None:
    topic = log.topic()
    clock = [0.0]
    options = log.options(topic, startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="60s")
    reader = StreamReader(stream_options(options), clock=lambda: clock[0])
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    log.write(topic, numbered(2))
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert offsets(first, topic) == {"0": 2}
    log.write(topic, numbered(9))
    assert reader.latestOffset(first, limit) == first
    assert offsets(reader.latestOffset(first, ALL), topic) == {"0": 11}
    reader = StreamReader(stream_options(options), clock=lambda: clock[0])
    second = reader.latestOffset(first, limit)
    clock[0] = 59.0
    log.write(topic, numbered(1))
    assert reader.latestOffset(second, limit) == second
    clock[0] = 61.0
    assert offsets(reader.latestOffset(second, limit), topic) == {"0": 12}
    log.write(topic, numbered(10))
    assert offsets(reader.latestOffset(second, limit), topic) == {"0": 22}


def test_a_run_over_what_is_there_ends_at_what_was_there(log: Log) -> None:
    topic = log.topic()
    log.write(topic, numbered(7))
    reader = log.reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=5, minOffsetsPerTrigger=5)
    start = reader.initialOffset()
    reader.simple_reader.prepareForTriggerAvailableNow()
    log.write(topic, numbered(7, "later"))
    limit = reader.getDefaultReadLimit()
    middle = reader.latestOffset(start, limit)
    end = reader.latestOffset(middle, limit)
    assert (offsets(middle, topic), offsets(end, topic)) == ({"0": 5}, {"0": 7})
    assert reader.latestOffset(end, limit) == end


# How a batch is read


def test_a_small_batch_comes_with_the_plan_and_a_big_one_by_tasks(log: Log) -> None:
    topic = log.topic(2)
    count = PREFETCH_RECORDS_MAX
    log.write(topic, numbered(count), partition=0)
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 1
    rows = reader.getCache(start, end)
    assert rows is not None
    assert sum(each.num_rows for each in rows) == count
    log.write(topic, numbered(count), partition=1)
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 2
    assert reader.getCache(start, end) is None
    assert sorted(values(batch(reader, start, end))) == sorted(numbered(count) * 2)


def test_a_batch_of_few_big_records_is_read_by_tasks(log: Log) -> None:
    topic = log.topic()
    log.write(topic, ["x" * 900_000] * 12)
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert reader.partitions(start, end)
    assert reader.getCache(start, end) is None
    assert batch(reader, start, end).num_rows == 12


def test_a_small_batch_is_read_before_spark_asks_for_it(log: Log) -> None:
    topic = log.topic()
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    log.write(topic, numbered(4))
    end = reader.latestOffset(start, ALL)
    assert reader._ahead is not None
    reader._ahead.wait()
    log.forget_before(topic, 3)
    assert values(batch(reader, start, end)) == numbered(4)


def test_what_was_read_ahead_is_not_taken_for_another_batch(log: Log) -> None:
    topic = log.topic()
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    log.write(topic, numbered(4))
    middle = reader.latestOffset(start, ALL)
    log.write(topic, numbered(2, "later"))
    end = reader.latestOffset(middle, ALL)
    assert values(batch(reader, start, middle)) == numbered(4)
    assert values(batch(reader, middle, end)) == numbered(2, "later")


def test_a_failure_to_read_ahead_is_told_when_spark_asks(log: Log) -> None:
    topic = log.topic()
    log.write(topic, numbered(4))
    reader = log.reader(topic, startingOffsets="earliest")
    log.forget_before(topic, 3)
    start = {**reader.initialOffset(), "offsets": {topic: {"0": 1}}}
    end = reader.latestOffset(start, ALL)
    with pytest.raises(SourceDataLost, match="the log starts at 3"):
        reader.partitions(start, end)


def test_a_big_partition_is_split_where_asked(log: Log) -> None:
    topic = log.topic()
    count = PREFETCH_RECORDS_MAX + 1000
    log.write(topic, numbered(count))
    reader = log.reader(topic, startingOffsets="earliest", minPartitions=4)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 4
    assert values(batch(reader, start, end)) == numbered(count)


# Crashes and changes


def test_the_first_batch_keeps_its_start_though_spark_asks_for_it_again(log: Log) -> None:
    topic = log.topic()
    log.write(topic, numbered(3, "before"))
    reader = log.reader(topic)
    start = reader.initialOffset()
    log.write(topic, numbered(3, "first"))
    end = reader.latestOffset(start, ALL)
    log.write(topic, numbered(3, "second"))
    after_crash = log.reader(topic)
    moved = after_crash.initialOffset()
    assert offsets(moved, topic) == {"0": 9}
    assert values(batch(after_crash, moved, end)) == numbered(3, "first")
    assert all_from(after_crash, end) == numbered(3, "second")


def test_an_empty_range_is_planned_as_nothing(log: Log) -> None:
    topic = log.topic()
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    log.write(topic, ["v"])
    end = reader.latestOffset(start, ALL)
    for offset in (start, end):
        assert reader.partitions(offset, offset) == []
        assert reader.getCache(offset, offset) is None


def test_new_partitions_are_read_from_their_beginning(log: Log) -> None:
    topic = log.topic()
    reader = log.reader(topic)
    start = reader.initialOffset()
    log.widen(topic, 2)
    log.write(topic, ["new"], partition=1)
    end = wait_for(lambda: found if (found := reader.latestOffset(start, ALL)) != start else None)
    assert values(batch(reader, start, end)) == ["new"]
    log.forget_before(topic, 1, partition=1)
    with pytest.raises(SourceDataLost, match=rf"{topic}-1 from offset 0"):
        batch(log.reader(topic), start, end)


def test_new_topics_that_match_the_pattern_are_found(log: Log) -> None:
    prefix = uuid.uuid4().hex[:8]
    one = log.topic(name=f"{prefix}-1")
    log.topic(name=f"x{prefix}-1")
    reader = log.reader(subscribePattern=f"{prefix}-.*")
    start = reader.initialOffset()
    assert list(start["offsets"]) == [one]
    two = log.topic(name=f"{prefix}-2")
    log.write(two, ["hello"])
    end = wait_for(
        lambda: found if offsets(found := reader.latestOffset(start, ALL), two) == {"0": 1} else None
    )
    assert values(batch(reader, start, end)) == ["hello"]


def test_offsets_deleted_by_retention_stop_the_stream_or_are_skipped(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    topic = log.topic()
    reader = log.reader(topic)
    start = reader.initialOffset()
    log.write(topic, numbered(10))
    end = reader.latestOffset(start, ALL)
    log.forget_before(topic, 6)
    with pytest.raises(
        SourceDataLost, match=rf"{topic}-0 from offset 0 on cannot be read: the log starts at 6"
    ):
        batch(log.reader(topic), start, end)
    with caplog.at_level(logging.WARNING):
        assert values(batch(log.reader(topic, failOnDataLoss="false"), start, end)) == numbered(10)[6:]
    assert "failOnDataLoss is false" in caplog.text


def test_a_topic_made_anew_stops_the_stream_or_is_read_from_its_beginning(log: Log) -> None:
    topic = log.topic()
    log.write(topic, numbered(10))
    start = log.reader(topic).initialOffset()
    log.drop(topic)
    log.topic(name=topic)
    log.write(topic, numbered(2, "new"))
    with pytest.raises(SourceDataLost, match="made anew"):
        log.reader(topic).latestOffset(start, ALL)
    assert all_from(log.reader(topic, failOnDataLoss="false"), start) == numbered(2, "new")


def test_a_topic_made_anew_under_a_planned_batch_is_told_or_read_as_far_as_it_goes(log: Log) -> None:
    topic = log.topic()
    reader = log.reader(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    log.write(topic, numbered(10))
    middle = reader.latestOffset(start, ALL)
    log.write(topic, numbered(10))
    end = reader.latestOffset(middle, ALL)
    log.drop(topic)
    log.topic(name=topic)
    log.write(topic, numbered(2, "new"))
    with pytest.raises(SourceDataLost, match=r"from offset 10 .* the log ends at 2"):
        batch(log.reader(topic), middle, end)
    assert values(batch(log.reader(topic, failOnDataLoss="false"), middle, end)) == []


def test_a_topic_that_is_gone_stops_the_stream_or_is_left_out(log: Log) -> None:
    gone, stays = log.topic(), log.topic()
    log.write(gone, ["lost"])
    both, soon = f"{gone},{stays}", {"kafka__default__api__timeout__ms": 1}
    start = log.reader(both).initialOffset()
    log.drop(gone)
    log.write(stays, ["here"])
    with pytest.raises(SourceDataLost, match=f"{gone}-0 from offset 1 on cannot be read: .* gone"):
        log.reader(both, **soon).latestOffset(start, ALL)
    assert all_from(log.reader(both, failOnDataLoss="false", **soon), start) == ["here"]


def test_a_checkpoint_of_another_cluster_is_refused(log: Log) -> None:
    reader = log.reader(log.topic())
    start = reader.initialOffset() | {"cluster": "elsewhere"}
    with pytest.raises(CheckpointOfOtherCluster, match="elsewhere"):
        reader.latestOffset(start, ALL)


def test_gaps_left_by_compaction_are_passed_over(tmp_path: Path) -> None:
    with Broker(tmp_path, housekeeping_ms=50) as broker:
        log = Log(broker.bootstrap_servers)
        topic = log.topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="1048576")
        for number in range(40):
            log.write(topic, [f"{number} {'x' * 100_000}"], key=f"k{number % 2}")
        reader = log.reader(topic, startingOffsets="earliest")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        assert offsets(end, topic) == {"0": 40}
        rows = wait_for(lambda: found if (found := batch(reader, start, end)).num_rows < 35 else None)
        at = rows.column("offset").to_pylist()
        assert at == sorted(set(at))
        assert [int(value.split()[0]) for value in values(rows)] == at
        assert {38, 39} <= set(at)
        assert reader.latestOffset(end, ALL) == end
