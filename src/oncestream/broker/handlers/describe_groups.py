"""DescribeGroups (15), versions 0-6: state and members of classic groups.

A group that does not exist is "Dead"; version 6 says GROUP_ID_NOT_FOUND too. Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_SINCE: Final = 6


def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    described = [_describe(group_id, call) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=described)


def _describe(group_id: str, call: Call) -> DescribedGroup:
    if not call.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    group = call.node.groups.group(group_id)
    if not isinstance(group, ClassicGroup):
        told = call.version >= _NOT_FOUND_SINCE
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if told else ErrorCode.NONE,
            error_message=f"Group {group_id} {reason}." if told else None,
            group_id=group_id,
            group_state=ClassicState.DEAD,
        )
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[member.described(protocol) for member in group.members.values()],
    )
