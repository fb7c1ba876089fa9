"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single configurations.

Differs from Apache Kafka: the broker's own settings and internal topics cannot be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from oncestream.broker import topic_configs
from oncestream.broker.call import Call
from oncestream.broker.config_resources import NewConfigs, OwnConfigs, alter
from oncestream.broker.topic_configs import ConfigType, split_list
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
    defaults = call.node.settings.topic_defaults

    def change(resource: AlterConfigsResource, own: OwnConfigs) -> NewConfigs:
        if len({config.name for config in resource.configs}) < len(resource.configs):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        return _apply(own, resource.configs, defaults)

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


def _apply(own: OwnConfigs, changes: list[AlterableConfig], defaults: Mapping[str, str]) -> NewConfigs:
    result: dict[str, str | None] = dict(own)
    for change in changes:
        name = change.name
        if change.config_operation == Operation.DELETE:
            result.pop(name, None)
            continue
        if change.value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        if change.config_operation == Operation.SET:
            result[name] = change.value
            continue
        spec = topic_configs.TABLE.get(name)
        if (
            spec is None
            or spec.type is not ConfigType.LIST
            or change.config_operation not in tuple(Operation)
        ):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {_verb(change.config_operation)} to key {name} because its type is not LIST.",
            )
        now = split_list(result.get(name) or defaults.get(name, spec.default))
        given = split_list(change.value)
        if change.config_operation == Operation.APPEND:
            now += [item for item in given if item not in now]
        else:
            now = [item for item in now if item not in given]
        result[name] = ",".join(now)
    return result


def _verb(operation: int) -> str:
    return Operation(operation).name if operation in tuple(Operation) else f"apply operation {operation}"
