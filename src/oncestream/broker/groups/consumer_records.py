"""Records of the consumer protocol (KIP-848) in the log of groups: how they are written, and what they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from oncestream.broker.groups.consumer_group import (
    LEAVE,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from oncestream.broker.state_log import StateRecord
from oncestream.wire.codec import decode_versioned, encode_versioned
from oncestream.wire.embedded.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from oncestream.wire.embedded.coordinator_keys import encode_key
from oncestream.wire.schema import Message

# -- writing ----------------------------------------------------------------------------------


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> StateRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> StateRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None,
    )
    return _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> StateRecord:
    partitions = [
        TopicPartition(topic_id=topic_id, partitions=sorted(owned))
        for topic_id, owned in sorted(assignment.items())
    ]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> StateRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> StateRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_listed(member.assigned, member),
        partitions_pending_revocation=_listed(member.revoking, member),
    )
    return _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id), value)


def regex_record(group_id: str, pattern: str, topics: frozenset[str], now_ms: int) -> StateRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=now_ms)
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def regex_tombstone(group_id: str, pattern: str) -> StateRecord:
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def member_tombstones(group_id: str, member_id: str) -> list[StateRecord]:
    """In the order in which they can be replayed: what a member owns goes before the member does."""
    return [
        _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[StateRecord]:
    return [
        *(record for member_id in group.members for record in member_tombstones(group.id, member_id)),
        *(regex_tombstone(group.id, pattern) for pattern in group.regex_topics),
        _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id), None),
        _record(ConsumerGroupMetadataKey(group_id=group.id), None),
    ]


def _record(key: Message, value: Message | None) -> StateRecord:
    return StateRecord(encode_key(key), None if value is None else encode_versioned(value, 0))


def _listed(assignment: Assignment, member: ConsumerMember) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(owned),
            assignment_epochs=[member.since.get((topic_id, index), member.epoch) for index in sorted(owned)],
        )
        for topic_id, owned in sorted(assignment.items())
    ]


# -- reading ----------------------------------------------------------------------------------


def replay(groups: dict[str, ConsumerGroup], key: Any, value: bytes | None) -> None:
    """Applies a record; a tombstone of what is not there is none."""
    kind = type(key)
    if kind not in _REPLAYS:
        return
    group = groups.get(key.group_id)
    if group is None:
        if value is None:
            return
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    if kind is ConsumerGroupMetadataKey and value is None:
        del groups[key.group_id]
        return
    _REPLAYS[kind](group, key, value)


def _replay_epoch(group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: bytes | None) -> None:
    assert value is not None
    found = decode_versioned(ConsumerGroupMetadataValue, value)
    group.epoch, group.metadata_hash = found.epoch, found.metadata_hash


def _replay_member(group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: bytes | None) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    found = decode_versioned(ConsumerGroupMemberMetadataValue, value)
    member = replace(
        group.members.get(key.member_id) or ConsumerMember(key.member_id),
        instance_id=found.instance_id,
        rack_id=found.rack_id,
        client_id=found.client_id,
        client_host=found.client_host,
        topics=frozenset(found.subscribed_topic_names),
        regex=found.subscribed_topic_regex,
        rebalance_timeout_ms=found.rebalance_timeout_ms,
        assignor=found.server_assignor,
    )
    group.put_member(member)


def _replay_target_epoch(
    group: ConsumerGroup, _: ConsumerGroupTargetAssignmentMetadataKey, value: bytes | None
) -> None:
    if value is None:
        group.target_epoch = -1
    else:
        found = decode_versioned(ConsumerGroupTargetAssignmentMetadataValue, value)
        group.target_epoch = found.assignment_epoch


def _replay_target(
    group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: bytes | None
) -> None:
    if value is None:
        group.target.pop(key.member_id, None)
        return
    found = decode_versioned(ConsumerGroupTargetAssignmentMemberValue, value)
    group.target[key.member_id] = {t.topic_id: frozenset(t.partitions) for t in found.topic_partitions}


def _replay_current(
    group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey, value: bytes | None
) -> None:
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put_member(
                replace(old, epoch=LEAVE, previous_epoch=LEAVE, assigned={}, revoking={}, since={})
            )
        return
    found = decode_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
    states = MemberState._value2member_map_
    since = {
        (topic.topic_id, index): epoch
        for topic in (*found.assigned_partitions, *found.partitions_pending_revocation)
        for index, epoch in zip(
            topic.partitions,
            topic.assignment_epochs or [found.member_epoch] * len(topic.partitions),
            strict=True,
        )
    }
    member = replace(
        old or ConsumerMember(key.member_id),
        epoch=found.member_epoch,
        previous_epoch=found.previous_member_epoch,
        state=MemberState(found.state) if found.state in states else MemberState.UNKNOWN,
        assigned={t.topic_id: frozenset(t.partitions) for t in found.assigned_partitions},
        revoking={t.topic_id: frozenset(t.partitions) for t in found.partitions_pending_revocation},
        since=since,
    )
    group.put_member(member)


def _replay_regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: bytes | None) -> None:
    if value is None:
        group.regex_topics.pop(key.regular_expression, None)
    else:
        found = decode_versioned(ConsumerGroupRegularExpressionValue, value)
        group.regex_topics[key.regular_expression] = frozenset(found.topics)


_REPLAYS: Final[Mapping[type, Callable[[ConsumerGroup, Any, bytes | None], None]]] = {
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
