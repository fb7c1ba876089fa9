"""Heartbeat (12), versions 0-4: a member of a classic group is alive, and learns that it must join again.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    if not call.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.node.groups.heartbeat(request)
