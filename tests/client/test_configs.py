"""Configurations and partitions of topics through the client."""

from __future__ import annotations

import pytest

from oncestream.client.admin import NewTopic, create_topics, grow_partitions
from oncestream.client.cluster import Cluster
from oncestream.client.configs import ConfigEntry, ConfigSource, alter_topic_configs, describe_configs
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import RequestRefused, UnknownTopic
from tests.client.kit import impatient, new_name, new_topic, numbered, read_all, write
from tests.streams.kit import soon


def config(cluster: Cluster, topic: str, name: str) -> ConfigEntry:
    (entry,) = [entry for entry in describe_configs(cluster, [topic])[topic] if entry.name == name]
    return entry


def config_soon(cluster: Cluster, topic: str, name: str, value: str | None) -> ConfigEntry:
    """The configuration once the topic sets it to this (None: does not set it)."""
    return soon(
        lambda: config(cluster, topic, name),
        lambda entry: entry.default if value is None else entry.value == value,
    )


def test_a_value_is_set_and_taken_back_and_the_others_stay(cluster: Cluster) -> None:
    topic = new_topic(cluster, retention_ms="1000")
    before = config(cluster, topic, "max.message.bytes")
    assert (before.default, before.source) == (True, ConfigSource.DEFAULT)
    alter_topic_configs(cluster, {topic: {"max.message.bytes": "2000"}})
    assert config_soon(cluster, topic, "max.message.bytes", "2000") == ConfigEntry(
        "max.message.bytes", "2000", ConfigSource.TOPIC, read_only=False, sensitive=False, default=False
    )
    assert config(cluster, topic, "retention.ms").value == "1000"
    alter_topic_configs(cluster, {topic: {"max.message.bytes": None}})
    assert config_soon(cluster, topic, "max.message.bytes", None) == before


def test_several_topics_are_changed_at_once(cluster: Cluster) -> None:
    one, two = new_topic(cluster), new_topic(cluster)
    alter_topic_configs(
        cluster, {one: {"cleanup.policy": "compact"}, two: {"compression.type": "zstd", "retention.ms": "-1"}}
    )
    config_soon(cluster, one, "cleanup.policy", "compact")
    config_soon(cluster, two, "compression.type", "zstd")
    config_soon(cluster, two, "retention.ms", "-1")


def test_a_wrong_value_is_refused_with_its_reason_and_changes_nothing(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    with pytest.raises(RequestRefused, match=r"retention.ms.*INVALID_CONFIG"):
        alter_topic_configs(cluster, {topic: {"retention.ms": "soon"}})
    assert config(cluster, topic, "retention.ms").default


def test_what_is_only_checked_changes_nothing(cluster: Cluster) -> None:
    topic, unmade = new_topic(cluster), new_name()
    alter_topic_configs(cluster, {topic: {"retention.ms": "5"}}, validate_only=True)
    grow_partitions(cluster, {topic: 3}, validate_only=True)
    create_topics(cluster, [NewTopic(unmade, 2)], validate_only=True)
    assert config(cluster, topic, "retention.ms").default
    assert cluster.partitions_of([topic]) == {topic: 1}
    assert unmade not in {each.name for each in cluster.metadata(None)}


def test_configurations_of_a_topic_that_does_not_exist_are_an_error(bootstrap: str) -> None:
    name, cluster = new_name(), impatient(bootstrap)
    with pytest.raises(UnknownTopic, match=name):
        describe_configs(cluster, [name])
    cluster.close()


def test_partitions_grow_and_can_be_written_at_once(cluster: Cluster) -> None:
    topic = new_topic(cluster, 1)
    grow_partitions(cluster, {topic: 3})
    assert cluster.partitions_of([topic]) == {topic: 3}
    here = TopicPartition(topic, 2)
    write(cluster, here, numbered(3))
    assert read_all(cluster, here) == numbered(3)


def test_partitions_never_shrink(cluster: Cluster) -> None:
    topic = new_topic(cluster, 2)
    with pytest.raises(RequestRefused, match="INVALID_PARTITIONS"):
        grow_partitions(cluster, {topic: 1})
