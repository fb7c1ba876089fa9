"""Which committed offsets have outlived their time."""

from __future__ import annotations

from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.consumer_group import ConsumerGroup
from oncestream.broker.groups.offsets import Committed, Offsets, tombstone
from oncestream.broker.state_log import StateRecord


def expired(
    group: ClassicGroup | ConsumerGroup, offsets: Offsets, retention_ms: int, now_ms: int
) -> tuple[list[StateRecord], bool]:
    """Tombstones of the offsets that go, and whether none is left after them."""
    records = []
    all_gone = not offsets.has_open_transactions(group.id)
    for topic, partition, committed in offsets.of_group(group.id):
        since_ms = _unused_since(group, committed)
        gone = (
            since_ms is not None
            and not group.is_subscribed_to(topic)
            and not offsets.is_pending(group.id, topic, partition)
            and _is_over(committed, since_ms, retention_ms, now_ms)
        )
        if gone:
            records.append(tombstone(group.id, topic, partition))
        else:
            all_gone = False
    return records, all_gone


def _is_over(committed: Committed, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if committed.expire_ms >= 0:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= retention_ms


def _unused_since(group: ClassicGroup | ConsumerGroup, committed: Committed) -> int | None:
    """From when the retention counts; None: as long as the group is as it is, never."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return committed.commit_ms
    if group.is_empty:
        return group.state_since_ms if group.state_since_ms >= 0 else committed.commit_ms
    if group.is_consumer and group.subscribed_topics is not None and group.state is ClassicState.STABLE:
        return committed.commit_ms
    return None
