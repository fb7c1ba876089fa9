"""ElectLeaders, reassignments of partitions and ListConfigResources, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import pytest

from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from oncestream.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from oncestream.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from oncestream.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.broker.kit import Wire, create_topic, error_name, new_name

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
PREFERRED, UNCLEAN = 0, 1


def new_topic(wire: Wire, partitions: int = 1) -> str:
    name = create_topic(wire, partitions=partitions).name
    assert name is not None
    return name


def elect(wire: Wire, version: int, kind: int, *wanted: TopicPartitions) -> ElectLeadersResponse:
    request = ElectLeadersRequest(election_type=kind, topic_partitions=list(wanted), timeout_ms=10_000)
    return wire.ask(request, version, ElectLeadersResponse)


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN], ids=["preferred", "unclean"])
@pytest.mark.parametrize("version", range(3))
def test_no_partition_needs_another_leader(wire: Wire, version: int, kind: int) -> None:
    topic, missing = new_topic(wire, partitions=2), new_name()
    answer = elect(
        wire,
        version,
        kind,
        TopicPartitions(topic=topic, partitions=[0, 1, 2]),
        TopicPartitions(topic=missing, partitions=[0]),
    )
    assert answer.error_code == 0
    assert {
        (result.topic, partition.partition_id): error_name(partition.error_code)
        for result in answer.replica_election_results
        for partition in result.partition_result
    } == {
        (topic, 0): "ELECTION_NOT_NEEDED",
        (topic, 1): "ELECTION_NOT_NEEDED",
        (topic, 2): "UNKNOWN_TOPIC_OR_PARTITION",
        (missing, 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }


def test_an_election_everywhere_names_no_partition(wire: Wire) -> None:
    topic = new_topic(wire)
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    answer = wire.ask(request, 2, ElectLeadersResponse)
    assert answer.error_code == 0
    assert topic in {result.topic for result in answer.replica_election_results}
    assert not any(result.partition_result for result in answer.replica_election_results)


@pytest.mark.parametrize("version", range(3))
def test_an_election_that_may_take_no_time_is_timed_out(wire: Wire, version: int) -> None:
    topic = new_topic(wire)
    for wanted in ([TopicPartitions(topic=topic, partitions=[0])], None):
        request = ElectLeadersRequest(topic_partitions=wanted, timeout_ms=0)
        answer = wire.ask(request, version, ElectLeadersResponse)
        assert version == 0 or error_name(answer.error_code) == "REQUEST_TIMED_OUT"
        assert [
            (result.topic, [error_name(partition.error_code) for partition in result.partition_result])
            for result in answer.replica_election_results
        ] == ([(topic, ["REQUEST_TIMED_OUT"])] if wanted else [])


def test_an_unknown_kind_of_election_is_refused(wire: Wire) -> None:
    topic = new_topic(wire)
    answer = elect(wire, 2, 7, TopicPartitions(topic=topic, partitions=[0]))
    assert error_name(answer.error_code) == "INVALID_REQUEST"
    assert [
        (result.topic, [error_name(partition.error_code) for partition in result.partition_result])
        for result in answer.replica_election_results
    ] == [(topic, ["INVALID_REQUEST"])]


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([1], ErrorCode.NONE),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 7], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", range(2))
def test_replicas_can_be_nowhere_else(
    wire: Wire, version: int, replicas: list[int] | None, expected: ErrorCode
) -> None:
    topic, missing = new_topic(wire), new_name()
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=i, replicas=replicas) for i in (0, 1)],
            )
            for name in (topic, missing)
        ],
    )
    answer = wire.ask(request, version, AlterPartitionReassignmentsResponse)
    assert (answer.error_code, answer.error_message) == (0, None)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {
        (each.name, partition.partition_index): partition.error_code
        for each in answer.responses
        for partition in each.partitions
    } == {
        (topic, 0): expected,
        (topic, 1): unknown,
        (missing, 0): unknown,
        (missing, 1): unknown,
    }


def test_no_partition_is_on_the_move(wire: Wire) -> None:
    topic = new_topic(wire)
    named = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0])]
    for topics in (None, named):
        request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
        answer = wire.ask(request, 0, ListPartitionReassignmentsResponse)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


def resources(wire: Wire, version: int, *types: int) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    answer = wire.ask(request, version, ListConfigResourcesResponse)
    assert answer.error_code == 0
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_topics_and_the_broker_have_configurations(wire: Wire) -> None:
    topic = new_topic(wire)
    assert resources(wire, 1, BROKER) == [(BROKER, "1")]
    assert (TOPIC, topic) in resources(wire, 1, TOPIC)
    assert {kind for kind, _ in resources(wire, 1, TOPIC, BROKER)} == {TOPIC, BROKER}
    assert {(TOPIC, topic), (BROKER, "1")} <= set(resources(wire, 1))
    assert resources(wire, 1, CLIENT_METRICS) == []
    assert resources(wire, 0) == []


def test_a_kind_of_configuration_that_nobody_knows_is_refused(wire: Wire) -> None:
    request = ListConfigResourcesRequest(resource_types=[BROKER, 3])
    answer = wire.ask(request, 1, ListConfigResourcesResponse)
    assert error_name(answer.error_code) == "UNSUPPORTED_VERSION"
