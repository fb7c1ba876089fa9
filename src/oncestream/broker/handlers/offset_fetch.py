"""OffsetFetch (9), versions 1-10: how far groups have come. A group nobody knows has come nowhere: -1, no error.

From version 8 several groups at once, from 9 on behalf of a member (KIP-848), version 10 names topics by their ids.
Answered when the offsets it tells are durable. Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups.coordinator import GroupCoordinator
from oncestream.broker.groups.offsets import Committed
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from oncestream.wire.schema import NO_UUID

_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_NOTHING: Final = Committed(-1, -1, "", -1)


def handle(request: OffsetFetchRequest, call: Call) -> Later:
    wanted = request.groups if call.version >= _GROUPS_SINCE else [_one_group(request)]
    groups = [_fetch_group(want, request.require_stable, call) for want in wanted]
    later = Later()

    def tell(error: KafkaError | None) -> None:
        if error is not None:
            groups[:] = [
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code) for group in groups
            ]
        later.resolve(
            OffsetFetchResponse(groups=groups) if call.version >= _GROUPS_SINCE else _of_one(groups[0])
        )

    call.node.groups.runner.when_durable([want.group_id for want in wanted], tell)
    return later


def _fetch_group(want: OffsetFetchRequestGroup, stable: bool, call: Call) -> OffsetFetchResponseGroup:
    groups = call.node.groups
    answer = OffsetFetchResponseGroup(group_id=want.group_id)
    try:
        call.require(Operation.DESCRIBE, ResourceType.GROUP, want.group_id)
        groups.check_offset_fetch(want.group_id, want.member_id, want.member_epoch)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    if want.topics is None:
        answer.topics = _all_topics(want.group_id, stable, call)
    else:
        answer.topics = [_fetch_topic(want.group_id, topic, stable, call) for topic in want.topics]
    return answer


def _all_topics(group_id: str, stable: bool, call: Call) -> list[OffsetFetchResponseTopics]:
    partitions: dict[str, list[int]] = defaultdict(list)
    for topic, partition, _ in call.node.groups.state.offsets.of_group(group_id):
        partitions[topic].append(partition)
    wanted = []
    for name, indexes in partitions.items():
        found = call.node.topics.get(name)
        if not call.sees(ResourceType.TOPIC, name):
            continue
        if found is not None or call.version < _TOPIC_IDS_SINCE:
            topic_id = NO_UUID if found is None else found.id
            wanted.append(
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=sorted(indexes))
            )
    return [_fetch_topic(group_id, topic, stable, call) for topic in wanted]


def _fetch_topic(
    group_id: str, want: OffsetFetchRequestTopics, stable: bool, call: Call
) -> OffsetFetchResponseTopics:
    by_id = call.version >= _TOPIC_IDS_SINCE
    name = call.node.topic_name(want.topic_id) if by_id else want.name
    indexes: Iterable[int] = want.partition_indexes
    if name is None:
        partitions = [_told(index, _NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
    elif not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = [_told(index, _NOTHING, refused) for index in indexes]
    else:
        partitions = [_fetch(call.node.groups, group_id, name, index, stable) for index in indexes]
    return OffsetFetchResponseTopics(name=want.name, topic_id=want.topic_id, partitions=partitions)


def _fetch(
    groups: GroupCoordinator, group_id: str, topic: str, index: int, stable: bool
) -> OffsetFetchResponsePartitions:
    offsets = groups.state.offsets
    if stable and offsets.is_pending(group_id, topic, index):
        return _told(index, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _told(index, offsets.get(group_id, topic, index) or _NOTHING, ErrorCode.NONE)


def _told(index: int, committed: Committed, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _one_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _of_one(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
