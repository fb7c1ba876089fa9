"""JoinGroup (11), versions 0-9: become a member of a classic group, or stay one in its next generation.

From version 4 a new member first gets its id (MEMBER_ID_REQUIRED). A member that asks a second time while its first
request still waits gets REBALANCE_IN_PROGRESS for the first one, which Apache Kafka never answers.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups.joining import Join
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

_PROTOCOL_NULLABLE_SINCE: Final = 7


def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Later:
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        refused = JoinGroupResponse(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, generation_id=-1, member_id=request.member_id
        )
        if call.version < _PROTOCOL_NULLABLE_SINCE:
            refused.protocol_name = ""
        return refused
    joined, answer = Later(), Later()
    call.node.groups.join(Join(request, call.version, call.client_id or "", client_host(call), joined))

    def tell(response: JoinGroupResponse) -> None:
        if response.protocol_name is None and call.version < _PROTOCOL_NULLABLE_SINCE:
            response.protocol_name = ""
        answer.resolve(response)

    joined.then(tell)
    return answer


def client_host(call: Call) -> str:
    """A client's address as Java prints one; tools show it."""
    return "/" + call.peer.rpartition(":")[0]
