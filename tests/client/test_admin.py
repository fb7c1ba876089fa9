"""Topics through the client."""

from __future__ import annotations

import pytest

from oncestream.client.admin import (
    NewTopic,
    create_topics,
    delete_records,
    delete_topics,
    describe_topics,
)
from oncestream.client.cluster import Cluster
from oncestream.client.configs import describe_configs
from oncestream.client.offsets import EARLIEST, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.writing import Writer
from oncestream.errors import RequestRefused, UnknownTopic
from tests.client.kit import new_name, new_topic, numbered, remove_topic, rows_of


def test_a_topic_is_made_with_its_partitions_and_configurations(cluster: Cluster) -> None:
    topic = new_topic(cluster, 3, retention_ms="123456")
    assert cluster.partitions_of([topic]) == {topic: 3}
    (retention,) = [
        entry for entry in describe_configs(cluster, [topic])[topic] if entry.name == "retention.ms"
    ]
    assert retention.value == "123456"
    (state,) = describe_topics(cluster, [topic])
    assert [each.partition for each in state.partitions] == [0, 1, 2]
    assert all(each.leader in each.in_sync for each in state.partitions)


def test_making_a_topic_twice_is_fine_only_where_that_was_asked_for(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    create_topics(cluster, [NewTopic(topic), NewTopic(new_name())], exist_ok=True)
    with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
        create_topics(cluster, [NewTopic(topic)])


def test_a_removed_topic_is_gone_and_removing_it_again_is_fine_where_asked_for(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    remove_topic(cluster, topic)
    delete_topics(cluster, [topic], missing_ok=True)
    with pytest.raises(UnknownTopic, match=topic):
        cluster.partitions_of([topic])


def test_names_are_found_by_a_pattern_that_matches_them_in_whole(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    assert cluster.topics_matching(topic) == [topic]
    assert topic in cluster.topics_matching(topic[:4] + ".*")
    assert topic not in cluster.topics_matching(topic[:4])


def test_old_records_are_removed(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    writer = Writer(cluster, producer=None)
    writer.write(here, rows_of(numbered(10)))
    writer.flush()
    assert delete_records(cluster, {here: 4}) == {here: 4}
    assert list_offsets(cluster, {here: EARLIEST}) == {here: 4}
