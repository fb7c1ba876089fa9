"""Producers and consumers know topics by the names of their streams."""

from __future__ import annotations

from typing import Any

import pytest

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import NoAutoCreate, NoSuchStream
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.producer import Producer
from oncestream.messaging.record import Delivery
from oncestream.streams.stream import Stream
from tests.client.kit import new_name
from tests.messaging.kit import take, values


def test_a_topic_of_a_stream_is_made_as_its_stream_says_and_shown_by_its_name(bootstrap: str) -> None:
    path = f"/{new_name('apps')}/pump"
    stream = Stream(path, bootstrap)
    stream.create(default_partitions=3)
    told: list[Delivery] = []
    with Producer(bootstrap) as producer:
        producer.send(f"{path}:warning", "hot", partition=2, on_delivery=told.append)
    assert told == [Delivery(f"{path}:warning", 2, 0)]
    assert len(stream.topic_info("warning").partitions) == 3
    with _consumer(bootstrap, f"{path}:warning") as consumer:
        (record,) = take(consumer, 1)
        place = TopicPartition(f"{path}:warning", 2)
        assert (record.topic, record.partition) == place
        assert consumer.position() == {place: 1}
        consumer.seek(*place, 0)
        assert values(take(consumer, 1)) == ["hot"]


def test_a_whole_stream_is_read_and_nothing_but_it(bootstrap: str) -> None:
    root = f"/{new_name('apps')}"
    for path in (f"{root}/pump", f"{root}/pump2"):
        Stream(path, bootstrap).create()
    with Producer(bootstrap) as producer:
        for topic in ("pump:warning", "pump:info", "pump2:other"):
            producer.send(f"{root}/{topic}", topic)
    with _consumer(bootstrap, f"{root}/pump:*") as consumer:
        records = take(consumer, 2)
        assert consumer.poll(0.5) == []
    assert {(record.topic, record.value.decode()) for record in records} == {
        (f"{root}/pump:warning", "pump:warning"),
        (f"{root}/pump:info", "pump:info"),
    }


def test_a_stream_that_makes_no_topics_and_one_that_is_not_there_are_errors(embedded: Any) -> None:
    path = f"/{new_name('apps')}"
    Stream(path, embedded.bootstrap_servers).create(auto_create=False)
    with Producer(embedded.bootstrap_servers) as producer:
        with pytest.raises(NoAutoCreate, match=f"{path}:warning"):
            producer.send(f"{path}:warning", "v")
        with pytest.raises(NoSuchStream, match="/no/such"):
            producer.send("/no/such:topic", "v")
    with pytest.raises(NoAutoCreate, match=f"{path}:warning"):
        _consumer(embedded.bootstrap_servers, f"{path}:warning")


def _consumer(bootstrap: str, topics: str) -> Consumer:
    return Consumer(topics, group=new_name("group"), bootstrap_servers=bootstrap, commit="manual")
