"""SyncGroup (14), versions 0-5: the leader hands in the assignment, every member gets its part.

From version 5 members must say which protocol they speak.
Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE: Final = 5


def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Later:
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if call.version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    later = Later()
    call.node.groups.sync(request, later)
    return later
