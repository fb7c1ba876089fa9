"""A member of a consumer group on its way to its target: what it must give up comes first, what it gets comes last."""

from __future__ import annotations

from collections.abc import Mapping

from oncestream.broker.groups.consumer_group import Assignment, ConsumerMember, MemberState, Place
from oncestream.wire.error_codes import ErrorCode, KafkaError


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owners: Mapping[Place, str],
    owned: Assignment | None,
) -> ConsumerMember:
    """The member after one more heartbeat; `owned` is what it says it owns, None if it says nothing."""
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.STABLE | MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, target_epoch, target, owners, owned)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(owned, member.revoking):
                return member
            return _next(member, member.epoch + 1, target_epoch, target, owners, owned)
        case _:
            if owned is None or owned:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. It must abandon all its partitions and rejoin.",
                )
            return _next(member, target_epoch, target_epoch, target, owners, owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owners: Mapping[Place, str],
    owned: Assignment | None,
) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    coming: dict[bytes, frozenset[int]] = {}
    unreleased = False
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, frozenset())
        now = member.assigned.get(topic_id, frozenset())
        missing = wanted - now
        free = frozenset(partition for partition in missing if (topic_id, partition) not in owners)
        unreleased = unreleased or free != missing
        for parts, found in ((kept, now & wanted), (revoking, now - wanted), (coming, free)):
            if found:
                parts[topic_id] = found
    if revoking and _still_owns(owned, revoking):
        return member.at_epoch(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.at_epoch(target_epoch, state, merge(kept, coming), {})


def merge(one: Assignment, other: Assignment) -> Assignment:
    return {
        topic_id: one.get(topic_id, frozenset()) | other.get(topic_id, frozenset())
        for topic_id in one.keys() | other.keys()
    }


def _still_owns(owned: Assignment | None, revoking: Assignment) -> bool:
    if owned is None:
        return True
    return any(owned.get(topic_id, frozenset()) & partitions for topic_id, partitions in revoking.items())
