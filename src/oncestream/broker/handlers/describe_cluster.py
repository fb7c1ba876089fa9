"""DescribeCluster (60), versions 0-2: the cluster's id and its one broker.

Differs from Apache Kafka: there are no controllers to ask for (endpoint type 2 is refused).
"""

from __future__ import annotations

from oncestream.broker.call import Call
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
    host, port = node.address
    return DescribeClusterResponse(
        cluster_id=node.folder.identity.cluster_id,
        controller_id=node.settings.node_id,
        brokers=[DescribeClusterBroker(broker_id=node.settings.node_id, host=host, port=port)],
    )
