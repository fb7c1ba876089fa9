"""ListConfigResources (74), versions 0-1: what has configurations that DescribeConfigs shows.

Differs from Apache Kafka: clients' metrics have none.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.config_resources import ResourceType as Configurable
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_CLIENT_METRICS = 16
_TYPES = {
    0: frozenset({_CLIENT_METRICS}),
    1: frozenset({*Configurable, _CLIENT_METRICS}),
}


def handle(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    known = _TYPES[call.version]
    types = frozenset(request.resource_types) or known
    try:
        call.require(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
        if not types <= known:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    except KafkaError as error:
        return ListConfigResourcesResponse(error_code=error.code)
    names = {
        Configurable.GROUP: list(call.node.catalog.group_configs),
        Configurable.BROKER_LOGGER: [str(call.node.settings.node_id)],
        Configurable.BROKER: [str(call.node.settings.node_id)],
        Configurable.TOPIC: list(call.node.topics),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in names
            if kind in types
            for name in names[kind]
        ]
    )
