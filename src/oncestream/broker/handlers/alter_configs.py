"""AlterConfigs (33), versions 0-2: replace all configurations of a topic, a group or the broker by those given.

Differs from Apache Kafka: internal topics cannot be changed; the broker takes no settings that it does not know, and
its default of min.insync.replicas, which has no effect on one node, may be taken away.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.config_resources import NewConfigs, OwnConfigs, ResourceType, alter, check_changes
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    outcomes = alter(call, request.resources, _replace, request.validate_only)
    return AlterConfigsResponse(
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


def _replace(resource: AlterConfigsResource, _own: OwnConfigs) -> NewConfigs:
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    configs = resource.configs
    check_changes([config.name for config in configs], [c.name for c in configs if c.value is None])
    return {config.name: config.value for config in configs}
