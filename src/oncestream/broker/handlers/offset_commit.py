"""OffsetCommit (8), versions 2-10: remember how far a group has come. Answered when it is durable.

Version 10 names topics by their ids. Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups import commits
from oncestream.broker.groups.commits import Commit, Committer
from oncestream.broker.later import Later
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
    answer = OffsetCommitResponse()
    known: list[Commit] = []
    for topic in request.topics:
        told = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(told)
        known += _check_topic(topic, told, call)
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
    topic: OffsetCommitRequestTopic, told: OffsetCommitResponseTopic, call: Call
) -> list[Commit]:
    """The partitions that exist; the others have their answer."""
    by_id = call.version >= _TOPIC_IDS_SINCE
    name = call.node.topic_name(topic.topic_id) if by_id else topic.name
    known = []
    for want in topic.partitions:
        place = OffsetCommitResponsePartition(partition_index=want.partition_index)
        told.partitions.append(place)
        if name is None:
            place.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        elif call.node.partition(name, want.partition_index) is None:
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
