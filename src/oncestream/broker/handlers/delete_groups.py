"""DeleteGroups (42), versions 0-2: delete groups without members, with their offsets.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.groups.step import Step
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(request: DeleteGroupsRequest, call: Call) -> Later:
    group_ids = list(dict.fromkeys(request.groups_names))
    answer = DeleteGroupsResponse(results=[_delete(group_id, call) for group_id in group_ids])
    later = Later()
    # Each result has told its own error by then.
    call.node.groups.runner.when_durable(group_ids, lambda _: later.resolve(answer))
    return later


def _delete(group_id: str, call: Call) -> DeletableGroupResult:
    groups = call.node.groups
    result = DeletableGroupResult(group_id=group_id)
    if not call.may(Operation.DELETE, ResourceType.GROUP, group_id):
        result.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return result

    def tell(_: Step, error: KafkaError | None) -> None:
        if error is not None:
            result.error_code = error.code
        else:
            call.changed(ResourceType.GROUP, group_id, "delete")

    step = Step(groups.runner.now_ms())
    step.after_write = tell
    try:
        groups.delete(group_id, step)
    except KafkaError as error:
        result.error_code = error.code
    else:
        groups.runner.finish(group_id, step)
    return result
