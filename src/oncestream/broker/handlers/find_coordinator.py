"""FindCoordinator (10), versions 0-6: which broker coordinates a group or a transactional id.

Differs from Apache Kafka: it is always this one, and it is ready at once. There are no share groups.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.security.refusals import refusal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_KINDS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}  # by the type of a key


def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version >= 4:
        found = [_find(key, request.key_type, call) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(request.key, request.key_type, call)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=ErrorCode(one.error_code).name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, key_type: int, call: Call) -> Coordinator:
    kind = _KINDS.get(key_type)
    code = ErrorCode.NONE
    if kind is None:
        code = ErrorCode.INVALID_REQUEST
    elif not call.may(Operation.DESCRIBE, kind, key):
        code = refusal(kind).code
    if code is not ErrorCode.NONE:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
    host, port = call.address
    return Coordinator(key=key, node_id=call.node.settings.node_id, host=host, port=port)
