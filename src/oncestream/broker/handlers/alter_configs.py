"""AlterConfigs (33), versions 0-2: replace all configurations of a topic or a group by those given.

Differs from Apache Kafka: the broker's own settings and internal topics cannot be changed.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.config_resources import NewConfigs, OwnConfigs, alter
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
    return {config.name: config.value for config in resource.configs}
