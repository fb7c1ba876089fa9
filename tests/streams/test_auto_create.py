"""Topics that the embedded broker makes on first use: as their stream says, whoever asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as typed_admin

from oncestream import Broker
from oncestream.streams.descriptor_log import TOPIC
from oncestream.streams.stream import Stream
from tests.conftest import Target
from tests.streams.kit import TIMEOUT_S, new_path, produce

admin: Any = typed_admin


@pytest.fixture
def stream(embedded: Target) -> Stream:
    return Stream(new_path("auto"), embedded.bootstrap_servers)


def test_a_topic_made_by_a_foreign_producer_is_as_its_stream_says(stream: Stream, embedded: Target) -> None:
    stream.create(ttl_s=60, default_partitions=3, compression="zstd")
    produce(embedded.bootstrap_servers, stream.path.topic("warning"), ["a"])
    made = stream.topic_info("warning")
    assert len(made.partitions) == 3
    assert made.configs["retention.ms"] == "60000"
    assert made.strays == {}
    stream.edit(default_partitions=5)
    produce(embedded.bootstrap_servers, stream.path.topic("alarm"), ["a"])
    assert len(stream.topic_info("alarm").partitions) == 5


def test_a_stream_without_auto_create_has_no_topics_but_those_made_by_hand(
    stream: Stream, embedded: Target
) -> None:
    stream.create(auto_create=False)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        produce(
            embedded.bootstrap_servers,
            stream.path.topic("warning"),
            ["a"],
            {"topic.metadata.propagation.max.ms": "100"},
        )
    assert caught.value.args[0].code() in (
        confluent_kafka.KafkaError._UNKNOWN_TOPIC,
        confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    assert stream.topics() == []
    stream.edit(auto_create=True)
    produce(embedded.bootstrap_servers, stream.path.topic("warning"), ["a"])
    assert stream.topics() == ["warning"]


def test_a_topic_made_with_other_configurations_gets_those_of_its_stream(
    stream: Stream, embedded: Target
) -> None:
    stream.create(ttl_s=60, default_partitions=3)
    wanted = admin.NewTopic(
        stream.path.topic("warning"), -1, 1, config={"retention.ms": "-1", "max.message.bytes": "5000"}
    )
    client = admin.AdminClient({"bootstrap.servers": embedded.bootstrap_servers})
    client.create_topics([wanted])[wanted.topic].result(TIMEOUT_S)
    info = stream.topic_info("warning")
    assert (info.configs["retention.ms"], info.configs["max.message.bytes"]) == ("60000", "5000")
    assert len(info.partitions) == 3


def test_a_deleted_stream_has_no_say_any_more(stream: Stream, embedded: Target) -> None:
    stream.create(auto_create=False)
    stream.delete()
    produce(embedded.bootstrap_servers, stream.path.topic("warning"), ["a"])


@pytest.mark.parametrize(
    "value",
    [
        b"no json",
        b"[]",
        b"{}",
        json.dumps(
            {"auto_create": True, "default_partitions": 2, "topic_configs": {"no.such": "1"}}
        ).encode(),
        json.dumps({"auto_create": True, "default_partitions": "x", "topic_configs": {}}).encode(),
    ],
)
def test_a_description_that_makes_no_sense_is_ignored(tmp_path: Path, value: bytes) -> None:
    with Broker(tmp_path) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(TOPIC, value, key=b"/apps/pump")
        assert producer.flush(TIMEOUT_S) == 0
        produce(broker.bootstrap_servers, "apps.pump.warning", ["a"])


def test_what_streams_say_is_known_after_a_restart(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        Stream("/apps/pump", broker.bootstrap_servers).create(default_partitions=4)
    with Broker(tmp_path) as broker:
        produce(broker.bootstrap_servers, "apps.pump.warning", ["a"])
        assert len(Stream("/apps/pump", broker.bootstrap_servers).topic_info("warning").partitions) == 4
