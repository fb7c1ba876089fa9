"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single configurations.

Differs from Apache Kafka: internal topics cannot be changed; the broker takes no settings that it does not know, and
its default of min.insync.replicas, which has no effect on one node, may be taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from oncestream.broker.call import Call
from oncestream.broker.config_resources import (
    NewConfigs,
    OwnConfigs,
    ResourceType,
    alter,
    check_changes,
    list_defaults,
)
from oncestream.broker.topic_configs import split_list
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(request: IncrementalAlterConfigsRequest, call: Call) -> IncrementalAlterConfigsResponse:
    lists = list_defaults(call.node)

    def change(resource: AlterConfigsResource, own: OwnConfigs) -> NewConfigs:
        changes = resource.configs
        valued = (each for each in changes if each.config_operation != Operation.DELETE)
        check_changes([each.name for each in changes], [each.name for each in valued if each.value is None])
        for each in changes:
            _check_operation(resource.resource_type, each.config_operation)
        return _apply(own, changes, lists)

    outcomes = alter(call, request.resources, change, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, outcomes, strict=True)
        ]
    )


def _check_operation(resource_type: int, operation: int) -> None:
    if operation not in tuple(Operation):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    if resource_type == ResourceType.BROKER_LOGGER and operation in (Operation.APPEND, Operation.SUBTRACT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
        )


def _apply(own: OwnConfigs, changes: list[AlterableConfig], lists: Mapping[str, str]) -> NewConfigs:
    """`lists`: the configurations that are lists, and what they hold where nobody set them."""
    result: dict[str, str | None] = dict(own)
    for change in changes:
        name, operation = change.name, Operation(change.config_operation)
        if operation is Operation.DELETE:
            result.pop(name, None)
        elif operation is Operation.SET:
            result[name] = change.value
        elif name not in lists:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {operation.name} to key {name} because its type is not LIST.",
            )
        else:
            now = split_list(result.get(name) or lists[name])
            given = split_list(change.value or "")
            if operation is Operation.APPEND:
                now += [item for item in given if item not in now]
            else:
                now = [item for item in now if item not in given]
            result[name] = ",".join(now)
    return result
