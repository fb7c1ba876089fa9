"""Groups through the client: classic ones and those of KIP-848."""

from __future__ import annotations

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.groups import (
    CLASSIC,
    CONSUMER,
    GroupListing,
    delete_groups,
    delete_offsets,
    describe_groups,
    list_groups,
)
from oncestream.client.offsets import Committed, commit_offsets, committed_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import GroupInUse, UnknownGroup
from tests.client.kit import live_consumer, new_name, new_topic


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_live_group_tells_its_members_and_what_they_read(
    cluster: Cluster, bootstrap: str, protocol: str
) -> None:
    topic, group = new_topic(cluster, 2), new_name("group")
    with live_consumer(bootstrap, group, topic, group_protocol=protocol, client_id="me"):
        assert GroupListing(group, protocol, "Stable", "consumer") in list_groups(cluster)
        (state,) = describe_groups(cluster, [group])
        assert (state.group, state.kind, state.state) == (group, protocol, "Stable")
        assert state.assignor == ("range" if protocol == CLASSIC else "uniform")
        (member,) = state.members
        assert member.client_id == "me"
        assert "127.0.0.1" in member.host
        assert member.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))


def test_a_group_that_only_holds_offsets_is_empty(cluster: Cluster) -> None:
    topic, group = new_topic(cluster), new_name("group")
    commit_offsets(cluster, group, {TopicPartition(topic, 0): Committed(1)})
    (listing,) = [each for each in list_groups(cluster) if each.group == group]
    assert (listing.kind, listing.state) == (CLASSIC, "Empty")
    (state,) = describe_groups(cluster, [group])
    assert (state.kind, state.state, state.members) == (CLASSIC, "Empty", ())


def test_a_group_that_does_not_exist_is_named(cluster: Cluster) -> None:
    group = new_name("group")
    with pytest.raises(UnknownGroup, match=group):
        describe_groups(cluster, [group])
    with pytest.raises(UnknownGroup, match=group):
        delete_groups(cluster, [group])


def test_a_removed_group_is_gone_with_its_offsets(cluster: Cluster) -> None:
    topic, group, other = new_topic(cluster), new_name("group"), new_name("group")
    for name in (group, other):
        commit_offsets(cluster, name, {TopicPartition(topic, 0): Committed(1)})
    delete_groups(cluster, [group])
    names = {each.group for each in list_groups(cluster)}
    assert group not in names
    assert other in names
    assert committed_offsets(cluster, group) == {}


def test_offsets_are_forgotten_one_by_one(cluster: Cluster) -> None:
    topic, group = new_topic(cluster, 2), new_name("group")
    offsets = {TopicPartition(topic, each): Committed(each + 1) for each in (0, 1)}
    commit_offsets(cluster, group, offsets)
    delete_offsets(cluster, group, [TopicPartition(topic, 0)])
    assert committed_offsets(cluster, group) == {TopicPartition(topic, 1): Committed(2)}


def test_a_group_in_use_keeps_itself_and_its_offsets(cluster: Cluster, bootstrap: str) -> None:
    topic, group = new_topic(cluster), new_name("group")
    with live_consumer(bootstrap, group, topic):
        with pytest.raises(GroupInUse, match=group):
            delete_groups(cluster, [group])
        with pytest.raises(GroupInUse, match=group):
            delete_offsets(cluster, group, [TopicPartition(topic, 0)])
