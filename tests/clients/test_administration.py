"""Topics, their configs and the cluster, administered by real clients; and what is refused, by which code."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.clients.client import Client, Message, RefusedError
from tests.clients.confluent import Confluent
from tests.clients.conftest import NewTopic, wait_until
from tests.clients.kafka_python import KafkaPython

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40

Incremental = Confluent | KafkaPython


@pytest.fixture(params=[Confluent, KafkaPython], ids=["confluent-kafka", "kafka-python"])
def incremental(request: pytest.FixtureRequest, bootstrap: str) -> Incremental:
    made: Incremental = request.param(bootstrap)
    return made


def test_a_created_topic_is_listed_with_its_partitions(client: Client, unused_topic: str) -> None:
    client.create_topic(unused_topic, partitions=5)
    wait_until(lambda: client.topics().get(unused_topic) == 5)


def test_a_created_topic_has_the_config_it_was_given(client: Client, unused_topic: str) -> None:
    client.create_topic(unused_topic, config={"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    wait_until(lambda: unused_topic in client.topics())
    config = client.topic_config(unused_topic)
    assert (config["retention.ms"], config["cleanup.policy"]) == ("12345", "compact,delete")


def test_a_topic_without_config_shows_the_defaults(client: Client, new_topic: NewTopic) -> None:
    config = client.topic_config(new_topic())
    expected = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "delete.retention.ms": "86400000",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
    }
    assert {name: config[name] for name in expected} == expected


def test_a_deleted_topic_is_gone_and_its_name_free(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    client.produce(topic, [Message(b"x")])
    client.delete_topic(topic)
    wait_until(lambda: topic not in client.topics())
    client.create_topic(topic)
    wait_until(lambda: client.topics().get(topic) == 1)
    assert client.latest(topic) == 0


def test_partitions_added_to_a_topic_can_be_written(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"old")])
    client.create_partitions(topic, 3)
    wait_until(lambda: client.topics()[topic] == 3)
    client.produce(topic, [Message(b"new", partition=2)])
    received = client.consume(topic, {0: 0, 1: 0, 2: 0}, 2)
    assert {(r.partition, r.value) for r in received} == {(0, b"old"), (2, b"new")}


def test_altering_a_config_puts_what_is_not_named_back_to_its_default(
    client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(retention_ms="1000000", segment_bytes="2000000")
    client.alter_config(topic, {"retention.ms": "2000000"})
    wait_until(lambda: client.topic_config(topic)["retention.ms"] == "2000000")
    if not isinstance(client, KafkaPython):  # it adds, by itself, what is set already
        assert client.topic_config(topic)["segment.bytes"] == "1073741824"


def test_setting_a_config_leaves_the_others_alone(incremental: Incremental, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000")
    incremental.set_config(topic, {"segment.bytes": "2000000"})
    wait_until(lambda: incremental.topic_config(topic)["segment.bytes"] == "2000000")
    assert incremental.topic_config(topic)["retention.ms"] == "1000000"


def test_deleting_a_config_gives_the_default_back(incremental: Incremental, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="1000000")
    incremental.unset_config(topic, "retention.ms")
    wait_until(lambda: incremental.topic_config(topic)["retention.ms"] == "604800000")


def test_a_value_is_appended_to_a_config_that_is_a_list(
    incremental: Incremental, new_topic: NewTopic
) -> None:
    topic = new_topic()
    incremental.append_config(topic, "cleanup.policy", "compact")
    wait_until(lambda: incremental.topic_config(topic)["cleanup.policy"] == "delete,compact")


@pytest.mark.parametrize(
    "config", [{"retention.ms": "soon"}, {"cleanup.policy": "shred"}, {"no.such.setting": "1"}]
)
def test_a_config_that_cannot_be_is_refused(
    incremental: Incremental, new_topic: NewTopic, config: Mapping[str, str]
) -> None:
    topic = new_topic()
    with pytest.raises(RefusedError) as refused:
        incremental.set_config(topic, config)
    assert refused.value.code == INVALID_CONFIG


def test_a_topic_with_a_config_that_cannot_be_is_not_created(client: Client, unused_topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.create_topic(unused_topic, config={"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG
    assert unused_topic not in client.topics()


def test_a_topic_that_exists_is_not_created_again(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(RefusedError) as refused:
        client.create_topic(topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


def test_a_topic_without_partitions_is_refused(client: Client, unused_topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.create_topic(unused_topic, partitions=0)
    assert refused.value.code == INVALID_PARTITIONS


def test_three_replicas_on_one_node_are_refused(client: Client, unused_topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.create_topic(unused_topic, replication_factor=3)
    assert refused.value.code == INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("name", ["with space", "a/b", "..", "x" * 250])
def test_a_name_that_cannot_be_is_refused(client: Client, name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.create_topic(name)
    assert refused.value.code == INVALID_TOPIC


@pytest.mark.parametrize("total", [1, 2])
def test_partitions_are_never_taken_away(client: Client, new_topic: NewTopic, total: int) -> None:
    topic = new_topic(partitions=2)
    with pytest.raises(RefusedError) as refused:
        client.create_partitions(topic, total)
    assert refused.value.code == INVALID_PARTITIONS


def test_an_unknown_topic_is_neither_deleted_nor_enlarged(client: Client, unused_topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.delete_topic(unused_topic)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(RefusedError) as refused:
        client.create_partitions(unused_topic, 3)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_records_beyond_the_end_are_not_deleted(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"x")])
    with pytest.raises(RefusedError) as refused:
        client.delete_records(topic, 5)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


def test_all_records_are_deleted_by_offset_minus_1(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"x")] * 3)
    assert client.delete_records(topic, -1) == 3
    assert (client.earliest(topic), client.latest(topic)) == (3, 3)
    assert client.produce(topic, [Message(b"y")]) == [3]


def test_the_cluster_names_its_one_node_by_the_address_that_was_dialled(
    client: Client, bootstrap: str
) -> None:
    cluster = client.cluster()
    host, port = bootstrap.split(":")
    assert [(name, number) for _, name, number in cluster.nodes] == [(host, int(port))]
    assert cluster.controller == cluster.nodes[0][0]
    assert cluster.id
