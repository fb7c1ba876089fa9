"""DescribeCluster (60), versions 0-2: the cluster's id and its one broker.

Differs from Apache Kafka: there are no controllers to ask for (endpoint type 2 is refused).
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1


def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    node = call.node
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a broker's endpoint, not a controller's",
            endpoint_type=BROKERS,
        )
    host, port = call.address
    response = DescribeClusterResponse(
        cluster_id=node.folder.identity.cluster_id,
        controller_id=node.settings.node_id,
        brokers=[DescribeClusterBroker(broker_id=node.settings.node_id, host=host, port=port)],
    )
    if request.include_cluster_authorized_operations:
        sees = call.may(Operation.DESCRIBE, ResourceType.CLUSTER)
        response.cluster_authorized_operations = call.operations(ResourceType.CLUSTER) if sees else 0
    return response
