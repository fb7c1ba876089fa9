"""Arrow rows written: where they land, in which order, and what is told of it."""

from __future__ import annotations

import time

import confluent_kafka
import pyarrow as pa
import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import idempotent_producer
from oncestream.client.writing import Writer, Written
from oncestream.errors import RequestRefused, UnknownTopic
from oncestream.records.compression import Codec
from tests.broker.kit import codecs_of
from tests.client.kit import confluent_read, new_topic, numbered, read_all, rows_of


@pytest.mark.parametrize("codec", list(Codec))
def test_another_client_reads_what_was_written(cluster: Cluster, bootstrap: str, codec: Codec) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    writer = Writer(cluster, producer=None, codec=codec)
    writer.write(here, rows_of(numbered(1000)))
    assert writer.flush() == [Written(here.topic, 0, 0, 999, 1000)]
    assert confluent_read(bootstrap, here.topic, [0], 1000) == numbered(1000)
    assert codecs_of(bootstrap, here.topic, 1) == {codec}


def test_keys_timestamps_and_headers_arrive(cluster: Cluster, bootstrap: str) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    headers = pa.array(
        [[{"key": "a", "value": b"1"}], None], pa.list_(pa.struct({"key": "string", "value": "binary"}))
    )
    rows = pa.record_batch(
        {
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([None, b"v"], pa.binary()),
            "timestamp": pa.array([5_000, None], pa.timestamp("ms", "UTC")),
            "headers": headers,
        }
    )
    before_ms = int(time.time() * 1000)
    writer = Writer(cluster, producer=None)
    writer.write(here, rows)
    writer.flush()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    consumer.assign([confluent_kafka.TopicPartition(here.topic, 0, 0)])
    first, second = consumer.consume(2, 20)
    consumer.close()
    assert (first.key(), first.value(), first.headers(), first.timestamp()[1]) == (
        b"k",
        None,
        [("a", b"1")],
        5_000,
    )
    assert (second.key(), second.value(), second.headers()) == (None, b"v", None)
    assert second.timestamp()[1] >= before_ms


def test_many_batches_of_many_partitions_keep_their_order(cluster: Cluster) -> None:
    topic = new_topic(cluster, 6)
    places = [TopicPartition(topic, each) for each in range(6)]
    writer = Writer(cluster, producer=idempotent_producer(cluster), request_bytes_max=4_000)
    for start in range(0, 2000, 50):
        for here in places:
            rows = rows_of(numbered(2000, f"{here.partition}-")[start : start + 50])
            writer.write(here, rows, batch_bytes_max=1_500)
    told = writer.flush()
    assert told == [Written(topic, each, 0, 1999, 2000) for each in range(6)]
    for here in places:
        assert read_all(cluster, here) == numbered(2000, f"{here.partition}-")


def test_each_flush_tells_only_what_came_since_the_last_one(cluster: Cluster) -> None:
    topic = new_topic(cluster, 2)
    writer = Writer(cluster, producer=idempotent_producer(cluster))
    writer.write(TopicPartition(topic, 0), rows_of(numbered(3)))
    writer.write(TopicPartition(topic, 1), rows_of(numbered(2)))
    assert writer.flush() == [Written(topic, 0, 0, 2, 3), Written(topic, 1, 0, 1, 2)]
    writer.write(TopicPartition(topic, 1), rows_of(numbered(4)))
    writer.write(TopicPartition(topic, 0), rows_of([]))
    assert writer.flush() == [Written(topic, 1, 2, 5, 4)]
    assert writer.flush() == []


def test_a_record_the_topic_does_not_take_is_refused(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster, max_message_bytes="2000"), 0)
    writer = Writer(cluster, producer=None)
    writer.write(here, rows_of(["x" * 5000]))
    with pytest.raises(RequestRefused, match="MESSAGE_TOO_LARGE"):
        writer.flush()


def test_a_partition_that_does_not_exist_is_named(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    writer = Writer(cluster, producer=None)
    writer.write(TopicPartition(topic, 5), rows_of(["x"]))
    with pytest.raises(UnknownTopic, match=f"{topic}-5"):
        writer.flush()
