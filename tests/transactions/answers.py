"""Everything a broker says of its state, as plain values that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncestream.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncestream.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncestream.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncestream.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncestream.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from oncestream.wire.schema import Message, Struct
from tests.broker.kit import Wire, wait_until

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
ISOLATION_LEVELS: Final = (0, 1)
EPOCHS: Final = {"leader_epoch"}

Answers = dict[str, Any]


def all_answers(wire: Wire, groups: Sequence[str], *, leader_epochs: bool) -> Answers:
    """What the broker answers once no transaction is being ended; order means nothing in it.

    The groups named are asked for beside those that the broker lists: they may have only pending offsets.
    """
    wait_until(lambda: not _ending(wire))
    metadata = wire.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    partitions = {str(topic.name): len(topic.partitions) for topic in metadata.topics}
    said: dict[str, Message] = {
        "Metadata": metadata,
        "DescribeConfigs": _configs(wire, list(partitions)),
        "DescribeProducers": _producers(wire, partitions),
        **_offsets(wire, partitions),
        **_groups(wire, groups, partitions),
        **_transactions(wire),
    }
    left_out = set() if leader_epochs else EPOCHS
    return {name: plain(answer, left_out) for name, answer in said.items()}


def plain(value: Any, left_out: set[str]) -> Any:
    """A message as dictionaries and sorted lists."""
    if isinstance(value, Struct):
        names = type(value).__fields__
        return {name: plain(getattr(value, name), left_out) for name in names if name not in left_out}
    if isinstance(value, list):
        return sorted((plain(item, left_out) for item in value), key=repr)
    return value


def _ending(wire: Wire) -> bool:
    listed = wire.ask(ListTransactionsRequest(), 2, ListTransactionsResponse).transaction_states
    return any(transaction.transaction_state.startswith("Prepare") for transaction in listed)


def _configs(wire: Wire, topics: list[str]) -> Message:
    resources = [DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name) for name in topics]
    resources.append(DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1"))
    for resource in resources:
        resource.configuration_keys = None
    return wire.ask(
        DescribeConfigsRequest(resources=resources, include_synonyms=True), 4, DescribeConfigsResponse
    )


def _producers(wire: Wire, partitions: dict[str, int]) -> Message:
    topics = [TopicRequest(name=n, partition_indexes=list(range(count))) for n, count in partitions.items()]
    return wire.ask(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)


def _offsets(wire: Wire, partitions: dict[str, int]) -> dict[str, Message]:
    said: dict[str, Message] = {}
    for isolation in ISOLATION_LEVELS:
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP):
            wanted = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                        for index in range(count)
                    ],
                )
                for name, count in partitions.items()
            ]
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=wanted)
            said[f"ListOffsets {timestamp}, isolation {isolation}"] = wire.ask(
                request, 9, ListOffsetsResponse
            )
    return said


def _groups(wire: Wire, more: Sequence[str], partitions: dict[str, int]) -> dict[str, Message]:
    listed = wire.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    names = sorted({*more, *(group.group_id for group in listed.groups)})
    topics = [
        OffsetFetchRequestTopics(name=n, partition_indexes=list(range(count)))
        for n, count in partitions.items()
    ]
    known = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    all_there_are = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names]
    return {
        "ListGroups": listed,
        "DescribeGroups": wire.ask(DescribeGroupsRequest(groups=names), 6, DescribeGroupsResponse),
        "ConsumerGroupDescribe": wire.ask(
            ConsumerGroupDescribeRequest(group_ids=names), 1, ConsumerGroupDescribeResponse
        ),
        "OffsetFetch": wire.ask(OffsetFetchRequest(groups=known), 9, OffsetFetchResponse),
        "OffsetFetch stable": wire.ask(
            OffsetFetchRequest(groups=all_there_are, require_stable=True), 9, OffsetFetchResponse
        ),
    }


def _transactions(wire: Wire) -> dict[str, Message]:
    listed = wire.ask(ListTransactionsRequest(), 2, ListTransactionsResponse)
    names = [transaction.transactional_id for transaction in listed.transaction_states]
    described = wire.ask(
        DescribeTransactionsRequest(transactional_ids=names), 0, DescribeTransactionsResponse
    )
    return {"ListTransactions": listed, "DescribeTransactions": described}
