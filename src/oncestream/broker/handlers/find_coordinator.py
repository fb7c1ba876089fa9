"""FindCoordinator (10), versions 0-6: which broker coordinates a group or a transactional id.

Differs from Apache Kafka: it is always this one, and it is ready at once. There are no share groups.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1


def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    known = request.key_type in (GROUP, TRANSACTION)
    code = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
    host, port = call.node.address if known else ("", -1)
    node_id = call.node.settings.node_id if known else -1
    if call.version < 4:
        return FindCoordinatorResponse(
            error_code=code, error_message=code.name, node_id=node_id, host=host, port=port
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code)
            for key in request.coordinator_keys
        ]
    )
