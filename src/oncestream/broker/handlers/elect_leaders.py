"""ElectLeaders (43), versions 0-2: this broker leads every partition, so there is never anything to elect.

Differs from Apache Kafka: nothing that one node could show.
"""

from __future__ import annotations

from oncestream.broker.call import Call, no_time
from oncestream.broker.node import Node
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

_ELECTION_TYPES = (0, 1)  # preferred, unclean


def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    wanted, node = request.topic_partitions, call.node
    try:
        call.require(Operation.ALTER, ResourceType.CLUSTER)
        if request.timeout_ms <= 0 and wanted != []:
            raise no_time()
        if request.election_type not in _ELECTION_TYPES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election type {request.election_type}")
    except KafkaError as error:
        # Version 0 has no other place to say so.
        results = [_results(topic, [error] * len(topic.partitions)) for topic in wanted or ()]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=results)
    if wanted is None:  # all of them; those that need no election are not named
        every = [ReplicaElectionResult(topic=name) for name in node.topics]
        return ElectLeadersResponse(replica_election_results=every)
    return ElectLeadersResponse(
        replica_election_results=[
            _results(topic, [_why_not(node, topic.topic, index) for index in topic.partitions])
            for topic in wanted
        ]
    )


def _why_not(node: Node, topic: str, index: int) -> KafkaError:
    if node.partition(topic, index) is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    return KafkaError(
        ErrorCode.ELECTION_NOT_NEEDED, f"{topic}-{index} has its leader, the only broker there is"
    )


def _results(topic: TopicPartitions, errors: list[KafkaError]) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=topic.topic,
        partition_result=[
            PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
            for index, error in zip(topic.partitions, errors, strict=True)
        ],
    )
