"""ListPartitionReassignments (46), version 0: replicas on their way, of which one node has none.

Differs from Apache Kafka: nothing that one node could show.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(_: ListPartitionReassignmentsRequest, call: Call) -> ListPartitionReassignmentsResponse:
    response = ListPartitionReassignmentsResponse(error_message=None)
    try:
        call.require(Operation.DESCRIBE, ResourceType.CLUSTER)
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
    return response
