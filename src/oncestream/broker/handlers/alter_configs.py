"""AlterConfigs (33), versions 0-2: replace all configurations of a topic by those given.

Differs from Apache Kafka: the broker's own settings cannot be changed while it runs.
"""

from __future__ import annotations

from collections import Counter

from oncestream.broker.call import Call
from oncestream.broker.config_resources import alter
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    named = Counter((r.resource_type, r.resource_name) for r in request.resources)
    return AlterConfigsResponse(
        responses=[
            _alter(
                resource, named[resource.resource_type, resource.resource_name], request.validate_only, call
            )
            for resource in request.resources
        ]
    )


def _alter(
    resource: AlterConfigsResource, times: int, validate_only: bool, call: Call
) -> AlterConfigsResourceResponse:
    response = AlterConfigsResourceResponse(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        given = {config.name: config.value for config in resource.configs}
        alter(call.node, resource.resource_type, resource.resource_name, lambda _: given, validate_only)
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
    return response
