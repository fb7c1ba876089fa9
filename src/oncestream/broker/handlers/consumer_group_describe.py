"""ConsumerGroupDescribe (69), versions 0-1: state, members and assignments of consumer groups (KIP-848).

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups.assignors import DEFAULT_ASSIGNOR
from oncestream.broker.groups.consumer_group import (
    NONE_ASSIGNED,
    ConsumerGroup,
    ConsumerMember,
    preferred_assignor,
)
from oncestream.broker.groups.consumer_group import Assignment as Owned
from oncestream.broker.node import Node
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CONSUMER_MEMBER: Final = 1


def handle(request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    described = [_describe(group_id, call) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=described)


def _describe(group_id: str, call: Call) -> DescribedGroup:
    node = call.node
    if not call.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    group = node.groups.group(group_id)
    if not isinstance(group, ConsumerGroup):
        reason = "not found" if group is None else "is not a consumer group"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {reason}.",
            group_id=group_id,
        )
    members = [_member(member, group, node) for member in group.members.values()]
    if not all(call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in _topics(members)):
        return DescribedGroup(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
            group_id=group_id,
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group.members.values(), DEFAULT_ASSIGNOR),
        members=members,
    )


def _topics(members: list[Member]) -> set[str]:
    """Every topic that the answer would tell of."""
    return {
        owned.topic_name
        for member in members
        for assignment in (member.assignment, member.target_assignment)
        for owned in assignment.topic_partitions
    }


def _member(member: ConsumerMember, group: ConsumerGroup, node: Node) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, node),
        target_assignment=_assignment(group.target.get(member.id, NONE_ASSIGNED), node),
        member_type=_CONSUMER_MEMBER,
    )


def _assignment(owned: Owned, node: Node) -> Assignment:
    names = ((topic_id, node.topic_name(topic_id)) for topic_id in owned)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(owned[topic_id]))
            for topic_id, name in names
            if name is not None
        ]
    )
