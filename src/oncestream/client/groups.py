"""Groups of consumers: which there are, who is in them, and removing them or their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.failures import raise_if_error
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.errors import BrokerTooOld, UnknownGroup
from oncestream.wire.embedded.consumer_protocol import decode_assignment
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages import consumer_group_describe
from oncestream.wire.messages import describe_groups as classic_describe
from oncestream.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncestream.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncestream.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncestream.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncestream.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

_CONSUMER_PROTOCOL: Final = "consumer"
_DEAD: Final = "Dead"
_OF_ANOTHER_KIND: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


class GroupListing(NamedTuple):
    group: str
    kind: str
    state: str
    protocol_type: str


class Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


class GroupState(NamedTuple):
    group: str
    kind: str
    state: str
    assignor: str
    members: tuple[Member, ...]


def list_groups(cluster: Cluster) -> list[GroupListing]:
    """Every group of the cluster, of whatever kind, sorted by name."""
    answers = cluster.ask_every_broker(
        ListGroupsRequest(), ListGroupsResponse, lambda told: raise_if_error(told.error_code, "groups")
    )
    return sorted(
        {
            # Brokers that do not tell the kind have only one.
            GroupListing(
                each.group_id, each.group_type.lower() or CLASSIC, each.group_state, each.protocol_type
            )
            for told in answers
            for each in told.groups
        }
    )


def describe_groups(cluster: Cluster, groups: Iterable[str]) -> list[GroupState]:
    """State and members of each group, classic or KIP-848, in the order given; UnknownGroup where there is none."""
    return [_consumer_group(cluster, group) or _classic_group(cluster, group) for group in groups]


def delete_groups(cluster: Cluster, groups: Iterable[str]) -> None:
    """Removes groups and what they have committed. GroupInUse: one has live members."""

    def check(told: DeleteGroupsResponse) -> None:
        for each in told.results:
            raise_if_error(each.error_code, each.group_id)

    for group in groups:
        request = DeleteGroupsRequest(groups_names=[group])
        cluster.ask_coordinator(CoordinatorKind.GROUP, group, request, DeleteGroupsResponse, check)


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Forgets what the group has committed there. GroupInUse: a live member is subscribed to that topic."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in numbers],
        )
        for topic, numbers in by_topic(partitions).items()
    ]
    if not topics:
        return

    def check(told: OffsetDeleteResponse) -> None:
        raise_if_error(told.error_code, group)
        for topic in told.topics:
            for each in topic.partitions:
                in_use = each.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                where = TopicPartition(topic.name, each.partition_index)
                raise_if_error(each.error_code, group if in_use else where)

    request = OffsetDeleteRequest(group_id=group, topics=topics)
    cluster.ask_coordinator(CoordinatorKind.GROUP, group, request, OffsetDeleteResponse, check)


def _consumer_group(cluster: Cluster, group: str) -> GroupState | None:
    """None where it is of the classic kind, or does not exist, or the broker does not know this kind."""

    def check(told: ConsumerGroupDescribeResponse) -> None:
        if told.groups[0].error_code not in _OF_ANOTHER_KIND:
            raise_if_error(told.groups[0].error_code, group)

    request = ConsumerGroupDescribeRequest(group_ids=[group])
    try:
        told = cluster.ask_coordinator(
            CoordinatorKind.GROUP, group, request, ConsumerGroupDescribeResponse, check
        ).groups[0]
    except BrokerTooOld:
        return None
    if told.error_code:
        return None
    members = tuple(_consumer_member(member) for member in told.members)
    return GroupState(group, CONSUMER, told.group_state, told.assignor_name, members)


def _classic_group(cluster: Cluster, group: str) -> GroupState:
    def check(told: DescribeGroupsResponse) -> None:
        raise_if_error(told.groups[0].error_code, group)

    request = DescribeGroupsRequest(groups=[group])
    told = cluster.ask_coordinator(
        CoordinatorKind.GROUP, group, request, DescribeGroupsResponse, check
    ).groups[0]
    if told.group_state == _DEAD:
        raise UnknownGroup(group=group)
    is_consumer = told.protocol_type == _CONSUMER_PROTOCOL
    members = tuple(_classic_member(member, is_consumer) for member in told.members)
    return GroupState(group, CLASSIC, told.group_state, told.protocol_data, members)


def _consumer_member(member: consumer_group_describe.Member) -> Member:
    assigned = (
        TopicPartition(topic.topic_name, number)
        for topic in member.assignment.topic_partitions
        for number in topic.partitions
    )
    return Member(
        member.member_id, member.instance_id, member.client_id, member.client_host, tuple(sorted(assigned))
    )


def _classic_member(member: classic_describe.DescribedGroupMember, is_consumer: bool) -> Member:
    """What members of other protocols (Connect) are assigned is known to them alone."""
    assigned: list[TopicPartition] = []
    if is_consumer and member.member_assignment:
        assigned = [
            TopicPartition(each.topic, number)
            for each in decode_assignment(member.member_assignment).assigned_partitions
            for number in each.partitions
        ]
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        tuple(sorted(assigned)),
    )
