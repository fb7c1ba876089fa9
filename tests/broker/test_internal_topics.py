"""The coordinators' topics are theirs: a client can neither make, grow, reconfigure nor delete them."""

from __future__ import annotations

import pytest

from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncestream.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import create_topic, metadata

OFFSETS = "__consumer_offsets"
TOPIC_RESOURCE = 2


@pytest.mark.parametrize("name", [OFFSETS, "__transaction_state", "__cluster_metadata"])
def test_internal_topics_are_not_made_by_clients(
    start_broker: StartBroker, connect: Connect, name: str
) -> None:
    wire = connect(start_broker().bootstrap_servers)
    assert metadata(wire, [name], create=True)[0].error_code != 0
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    made = wire.ask(request, 7, CreateTopicsResponse).topics[0]
    assert made.error_code == ErrorCode.INVALID_REQUEST


def test_an_internal_topic_cannot_be_changed(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker().bootstrap_servers)
    topic = create_topic(wire)
    commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    group = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name=topic.name or "", partitions=[commit])]
    )
    assert wire.ask(group, 8, OffsetCommitResponse).topics[0].partitions[0].error_code == 0
    before = metadata(wire, [OFFSETS])[0]
    assert before.error_code == 0

    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=OFFSETS, count=100, assignments=None)])
    result = wire.ask(grown, 3, CreatePartitionsResponse).results[0]
    assert result.error_code == ErrorCode.INVALID_REQUEST
    change = AlterableConfig(name="cleanup.policy", config_operation=0, value="delete")
    altered = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=OFFSETS, configs=[change])
        ]
    )
    answer = wire.ask(altered, 1, IncrementalAlterConfigsResponse).responses[0]
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name=OFFSETS)], timeout_ms=15_000)
    gone = wire.ask(deleted, 6, DeleteTopicsResponse).responses[0]
    assert gone.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert metadata(wire, [OFFSETS])[0] == before
