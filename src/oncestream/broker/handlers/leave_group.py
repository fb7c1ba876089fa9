"""LeaveGroup (13), versions 0-5: members leave a group, from version 3 several at once.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_BATCHED_SINCE: Final = 3


def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | Later:
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    later = Later()
    if call.version >= _BATCHED_SINCE:
        call.node.groups.leave(request.group_id, request.members, later)
        return later
    answer = Later()
    call.node.groups.leave(request.group_id, [MemberIdentity(member_id=request.member_id)], later)
    later.then(lambda response: answer.resolve(_of_one(response)))
    return answer


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    code = response.error_code or response.members[0].error_code
    return LeaveGroupResponse(error_code=code)
