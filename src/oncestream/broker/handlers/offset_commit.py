"""OffsetCommit (8), versions 2-10: remember how far a group has come. Answered when it is durable.

Version 10 names topics by their ids. Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups import commits
from oncestream.broker.groups.commits import Commit, Committer
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_TOPIC_IDS_SINCE: Final = 10


def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | Later:
    may_group = call.may(Operation.READ, ResourceType.GROUP, request.group_id)
    answer = OffsetCommitResponse()
    known: list[Commit] = []
    for topic in request.topics:
        told = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(told)
        known += _check_topic(topic, told, call, may_group)
    if not known:
        return answer
    who = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    later = Later()
    commits.commit(
        call.node.groups,
        who,
        known,
        answer,
        later,
        version=call.version,
        retention_ms=request.retention_time_ms,
    )
    return later


def _check_topic(
    topic: OffsetCommitRequestTopic, told: OffsetCommitResponseTopic, call: Call, may_group: bool
) -> list[Commit]:
    """The partitions that exist and may be read; the others have their answer."""
    by_id = call.version >= _TOPIC_IDS_SINCE
    name = call.node.topic_name(topic.topic_id) if by_id else topic.name
    refused = _refusal(name, call, may_group)
    known = []
    for want in topic.partitions:
        place = OffsetCommitResponsePartition(partition_index=want.partition_index)
        told.partitions.append(place)
        if refused is not None:
            place.error_code = refused
        elif name is None or call.node.partition(name, want.partition_index) is None:
            place.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            known.append(
                Commit(
                    name,
                    want.partition_index,
                    want.committed_offset,
                    want.committed_leader_epoch,
                    want.committed_metadata,
                    place,
                )
            )
    return known


def _refusal(topic: str | None, call: Call, may_group: bool) -> ErrorCode | None:
    if not may_group:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not call.may(Operation.READ, ResourceType.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None
