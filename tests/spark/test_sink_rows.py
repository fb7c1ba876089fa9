"""What a row becomes: its key, value, headers and time, its topic and partition, its compression."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from oncestream.records.compression import Codec
from tests.broker.kit import codecs_of
from tests.spark.sink_kit import committed, dead_rows, load, rows, texts
from tests.spark.source_kit import TIMEOUT_S, Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ["", "a", "b", "key", "longer key", "ключ", "0123456789abcdef", *(f"user-{n}" for n in range(60))]


def test_a_row_keeps_its_key_value_headers_and_time(spark: SparkSession, log: Log) -> None:
    topic = log.topic(1)
    noon = datetime.now(UTC).replace(microsecond=123_000) - timedelta(hours=1)
    content = [
        (b"k", b"v", [("h", b"1"), ("h", None), ("é", b"")], noon, 0),
        (None, b"", [], noon, 0),
        (b"", None, None, noon, 0),
    ]
    schema = (
        "key binary, value binary, headers array<struct<key: string, value: binary>>, timestamp timestamp,"
        " partition int"
    )
    load(rows(spark, content, schema).coalesce(1), log.bootstrap, topic)
    found = committed(log.bootstrap, topic)
    assert [(record.key, record.value, record.headers) for record in found] == [
        (b"k", b"v", (("h", b"1"), ("h", None), ("é", b""))),
        (None, b"", ()),
        (b"", None, ()),
    ]
    assert {record.time_ms for record in found} == {int(noon.timestamp() * 1000)}


def test_text_and_maps_of_headers_are_taken_as_they_are(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(1)
    content = [("ключ", "значение", {"lang": "ru"})]
    load(
        rows(spark, content, "key string, value string, headers map<string, string>"),
        embedded_log.bootstrap,
        topic,
    )
    (record,) = committed(embedded_log.bootstrap, topic)
    assert (record.key, record.text, record.headers) == ("ключ".encode(), "значение", (("lang", b"ru"),))


def test_a_key_goes_to_the_partition_that_java_would_choose(spark: SparkSession, log: Log) -> None:
    ours, theirs = log.topic(7), log.topic(7)
    producer = Producer({"bootstrap.servers": log.bootstrap, "partitioner": "murmur2_random"})
    for key in KEYS:
        producer.produce(theirs, value=key.encode(), key=key.encode())
    assert producer.flush(TIMEOUT_S) == 0
    load(
        rows(spark, [(key, key) for key in KEYS], "key string, value string"),
        log.bootstrap,
        ours,
        partition_by="key",
    )
    assert _partitions(log, ours) == _partitions(log, theirs)


def test_rows_without_a_key_are_spread_over_all_partitions(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(3)
    df = spark.range(0, 3_000, numPartitions=3).selectExpr("cast(id as string) value", "'same' as key")
    load(df, embedded_log.bootstrap, topic, partition_by="round-robin")
    found = committed(embedded_log.bootstrap, topic)
    assert sorted(int(record.text) for record in found) == list(range(3_000))
    assert {record.partition for record in found} == {0, 1, 2}


def test_a_column_chooses_the_partition_and_the_key_where_it_is_null(
    spark: SparkSession, embedded_log: Log
) -> None:
    topic, by_key = embedded_log.topic(7), embedded_log.topic(7)
    df = rows(spark, [(key, key, None) for key in KEYS], "key string, value string, partition int")
    load(df, embedded_log.bootstrap, by_key)
    expected = _partitions(embedded_log, by_key)
    chosen = rows(
        spark,
        [(key, key, 3 if n % 2 else None) for n, key in enumerate(KEYS)],
        "key string, value string, partition int",
    )
    load(chosen, embedded_log.bootstrap, topic)
    expected |= {key: 3 for n, key in enumerate(KEYS) if n % 2}
    assert _partitions(embedded_log, topic) == expected


def test_a_function_chooses_the_partition_and_a_row_it_fails_on_is_a_dead_letter(
    spark: SparkSession, embedded_log: Log
) -> None:
    topic = embedded_log.topic(5)

    def last_digit(row: dict[str, Any], partitions: int) -> int:
        return int(row["value"][-1:]) % partitions

    content = [(str(number),) for number in range(40)] + [("x",)]
    done = load(rows(spark, content, "value string"), embedded_log.bootstrap, topic, partition_by=last_digit)
    found = committed(embedded_log.bootstrap, topic)
    assert (done.rows, done.dead) == (40, 1)
    assert {record.text: record.partition for record in found} == {str(n): n % 10 % 5 for n in range(40)}
    (dead,) = dead_rows(embedded_log.bootstrap, topic)
    assert dead.value == b"x"
    assert dead.header("error").startswith("partition_by: ValueError: invalid literal for int()")


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_rows_are_compressed_as_asked(spark: SparkSession, log: Log, codec: Codec) -> None:
    topic = log.topic(2)
    df = spark.range(0, 5_000, numPartitions=2).selectExpr("repeat(cast(id as string), 20) as value")
    load(df, log.bootstrap, topic, compression=codec.name.lower())
    assert codecs_of(log.bootstrap, topic, 2) == {codec}
    assert texts(log.bootstrap, topic) == sorted(str(number) * 20 for number in range(5_000))


def test_rows_go_to_the_topics_their_column_names(spark: SparkSession, log: Log) -> None:
    topics = [log.topic(partitions) for partitions in (1, 2, 3)]
    missing, dead = f"{topics[0]}-missing", log.topic(1)
    content: list[tuple[str | None, str, str]]
    content = [(topics[number % 3], f"k{number}", str(number)) for number in range(300)]
    content += [(missing, "k", "astray"), (None, "k", "nowhere")]
    done = load(
        rows(spark, content, "topic string, key string, value string"), log.bootstrap, None, dead_letters=dead
    )
    assert (done.rows, done.dead) == (300, 2)
    for first, topic in enumerate(topics):
        assert texts(log.bootstrap, topic) == sorted(str(number) for number in range(first, 300, 3))
    letters = {record.text: record.header("error") for record in committed(log.bootstrap, dead)}
    assert letters == {"astray": f"there is no topic {missing!r}", "nowhere": "no topic is given"}


def test_records_as_large_as_the_topic_allows_are_written_and_larger_ones_are_dead_letters(
    spark: SparkSession, log: Log
) -> None:
    small, big = log.topic(1, max_message_bytes="2000"), log.topic(1, max_message_bytes="4000000")
    sizes = (1, 1_900, 2_100, 1_040_000, 3_900_000, 4_100_000)
    content = [(topic, b"x" * size) for topic in (small, big) for size in sizes]
    dead = log.topic(1, max_message_bytes="5000000")
    done = load(rows(spark, content, "topic string, value binary"), log.bootstrap, None, dead_letters=dead)
    assert (done.rows, done.dead) == (7, 5)
    assert [len(record.text) for record in committed(log.bootstrap, small)] == [1, 1_900]
    assert sorted(len(record.text) for record in committed(log.bootstrap, big)) == list(sizes[:5])
    letters = committed(log.bootstrap, dead)
    assert sorted(len(record.text) for record in letters) == [
        2_100,
        1_040_000,
        3_900_000,
        4_100_000,
        4_100_000,
    ]
    assert any(f"max.message.bytes = 2000 of {small!r}" in record.header("error") for record in letters)


def test_a_dead_letter_too_large_for_its_topic_is_cut_and_says_how_long_it_was(
    spark: SparkSession, embedded_log: Log
) -> None:
    topic = embedded_log.topic(1)
    load(rows(spark, [(b"y" * 2_000_000,)], "value binary"), embedded_log.bootstrap, topic)
    (dead,) = dead_rows(embedded_log.bootstrap, topic)
    assert dead.header("truncated") == "2000000"
    assert set(dead.text) == {"y"}
    assert 1_000_000 < len(dead.text) < 1_048_588


def test_a_record_of_a_time_that_the_topic_does_not_take_is_a_dead_letter(
    spark: SparkSession, log: Log
) -> None:
    topic = log.topic(1, message_timestamp_before_max_ms="7200000")
    now = datetime.now(UTC)
    content = [("now", now), ("none", None), ("old", now - timedelta(hours=1))]
    content += [("too old", now - timedelta(hours=3)), ("ahead", now + timedelta(hours=2))]
    done = load(rows(spark, content, "value string, timestamp timestamp"), log.bootstrap, topic)
    assert (done.rows, done.dead) == (3, 2)
    assert texts(log.bootstrap, topic) == ["none", "now", "old"]
    letters = {record.text: record.header("error") for record in dead_rows(log.bootstrap, topic)}
    assert letters.keys() == {"too old", "ahead"}
    assert letters["ahead"].startswith(f"{topic!r} takes no record of that time (message.timestamp.before")


def test_a_record_without_a_key_for_a_compacted_topic_is_a_dead_letter(spark: SparkSession, log: Log) -> None:
    topic = log.topic(1, cleanup_policy="compact")
    content = [("k", "good"), (None, "bad")]
    done = load(rows(spark, content, "key string, value string"), log.bootstrap, topic)
    assert (done.rows, done.dead) == (1, 1)
    (dead,) = dead_rows(log.bootstrap, topic)
    assert dead.text == "bad"
    assert dead.header("error") == f"{topic!r} is compacted: it takes no record without a key"


def test_a_partition_that_is_not_there_makes_a_dead_letter(spark: SparkSession, log: Log) -> None:
    topic = log.topic(2)
    content = [("a", 0), ("b", 1), ("c", 2), ("d", -1)]
    done = load(rows(spark, content, "value string, partition int"), log.bootstrap, topic)
    assert (done.rows, done.dead) == (2, 2)
    assert _partitions(log, topic) == {"a": 0, "b": 1}
    letters = {record.text: record.header("error") for record in dead_rows(log.bootstrap, topic)}
    assert letters == {
        "c": f"{topic!r} has no partition 2, only 0 to 1",
        "d": f"{topic!r} has no partition -1, only 0 to 1",
    }


def _partitions(log: Log, topic: str) -> dict[str, int]:
    return {record.text: record.partition for record in committed(log.bootstrap, topic)}
