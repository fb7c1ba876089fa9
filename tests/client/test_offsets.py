"""Offsets of logs and of groups."""

from __future__ import annotations

import confluent_kafka
import pyarrow as pa
import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import (
    EARLIEST,
    LATEST,
    Committed,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Transactions
from oncestream.client.writing import Writer
from oncestream.errors import GroupInUse, UnknownTopic
from tests.client.kit import new_name, new_topic, numbered, rows_of


def test_first_last_and_by_time(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    rows = pa.record_batch(
        {"value": [b"a", b"b", b"c"], "timestamp": pa.array([1000, 2000, 3000], pa.int64())}
    )
    writer = Writer(cluster, producer=None)
    writer.write(here, rows)
    writer.flush()
    assert list_offsets(cluster, {here: EARLIEST}) == {here: 0}
    assert list_offsets(cluster, {here: LATEST}) == {here: 3}
    assert list_offsets(cluster, {here: 1500}) == {here: 1}
    assert list_offsets(cluster, {here: 9000}) == {here: None}


def test_the_last_offset_stops_before_an_open_transaction_only_for_read_committed(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    name = new_name()
    transactions = Transactions(cluster, name, 60_000)
    writer = Writer(cluster, producer=transactions.start(), transactional_id=name)
    transactions.add_partitions([here])
    writer.write(here, rows_of(numbered(5)))
    writer.flush()
    assert list_offsets(cluster, {here: LATEST}) == {here: 0}
    assert list_offsets(cluster, {here: LATEST}, read_committed=False) == {here: 5}
    transactions.fence_abort()


def test_offsets_come_back_with_their_metadata(cluster: Cluster) -> None:
    topic, group = new_topic(cluster, 3), new_name("group")
    wanted = {TopicPartition(topic, 0): Committed(7, "m"), TopicPartition(topic, 2): Committed(0)}
    assert committed_offsets(cluster, group) == {}
    commit_offsets(cluster, group, wanted)
    assert committed_offsets(cluster, group) == wanted
    assert committed_offsets(cluster, group, [TopicPartition(topic, 1), TopicPartition(topic, 2)]) == {
        TopicPartition(topic, 2): Committed(0)
    }


def test_a_group_with_live_members_takes_no_commit_from_outside(cluster: Cluster, bootstrap: str) -> None:
    topic, group = new_topic(cluster), new_name("group")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    joined: list[object] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: joined.extend(partitions))
    while not joined:
        consumer.poll(0.1)
    with pytest.raises(GroupInUse, match=group):
        commit_offsets(cluster, group, {TopicPartition(topic, 0): Committed(1)})
    consumer.close()


def test_a_partition_that_does_not_exist_is_named(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    with pytest.raises(UnknownTopic, match=f"{topic}-9"):
        list_offsets(cluster, {TopicPartition(topic, 9): LATEST})
