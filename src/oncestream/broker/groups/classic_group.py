"""A group of the classic protocol, as it lives in memory: its state, its members, who waits for what.

Only its last stable generation is in the log; what happens between two generations is not, as in Apache Kafka.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from oncestream.broker.groups.classic_member import ClassicMember
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey, Timers
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.state_log import StateRecord
from oncestream.wire.codec import DecodeError, encode_versioned
from oncestream.wire.embedded.consumer_protocol import decode_subscription
from oncestream.wire.embedded.coordinator_keys import encode_key
from oncestream.wire.embedded.group_metadata import GroupMetadataKey, GroupMetadataValue
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.join_group import JoinGroupResponse
from oncestream.wire.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL: Final = "consumer"
_VALUE_VERSION: Final = 3


class ClassicState(StrEnum):
    """Where a group stands between two generations."""

    EMPTY = "Empty"  # no members; may hold offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # members are to join again
    COMPLETING_REBALANCE = "CompletingRebalance"  # all have joined, the leader is to hand out the assignment
    STABLE = "Stable"
    DEAD = "Dead"  # deleted


LEGAL: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
    ),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset({ClassicState.DEAD}),
}


class ClassicGroup:
    """Members and generation of one group."""

    def __init__(self, group_id: str, settings: BrokerSettings, timers: Timers, now_ms: int) -> None:
        self.id = group_id
        self.settings = settings
        self.timers = timers
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: set[str] = set()  # ids given out by MEMBER_ID_REQUIRED
        self.pending_syncs: set[str] = set()
        self.new_member_came = False  # during the delay before the first rebalance
        self.subscribed_topics: frozenset[str] | None = None
        self._protocol_counts: Counter[str] = Counter()

    # -- questions ----------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    @property
    def awaiting_join(self) -> int:
        return sum(1 for member in self.members.values() if member.joining is not None)

    @property
    def all_joined(self) -> bool:
        return not self.pending_joins and all(m.joining is not None for m in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.is_consumer if self.subscribed_topics is None else topic in self.subscribed_topics

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols could join."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(
            self._protocol_counts[name] == len(self.members) for name in names
        )

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def select_protocol(self) -> str:
        """Every member votes for the first of its protocols that all others know."""
        common = {name for name, count in self._protocol_counts.items() if count == len(self.members)}
        votes = Counter(next(n for n in m.protocols if n in common) for m in self.members.values())
        return votes.most_common(1)[0][0]

    # -- changes ------------------------------------------------------------------------------

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert state in LEGAL[self.state], f"group {self.id}: {self.state} -> {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.id
        if self.leader_id is None:
            self.leader_id = member.id
        self.members[member.id] = member
        self._protocol_counts.update(member.protocols.keys())
        self.pending_joins.discard(member.id)

    def remove(self, member_id: str, step: Step) -> None:
        """Takes a member, or one that was about to join, out; whatever it waits for is answered."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        self.timers.cancel(TimerKey(self.id, "session", member_id))
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._protocol_counts.subtract(member.protocols.keys())
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.end_waits(member, ErrorCode.UNKNOWN_MEMBER_ID, step, told_id="")

    def update(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        self._protocol_counts.subtract(member.protocols.keys())
        member.protocols = protocols
        self._protocol_counts.update(protocols.keys())

    def replace_static(self, old_id: str, new_id: str, step: Step) -> ClassicMember:
        """The process behind an instance id is a new one: it takes the old one's place and assignment."""
        member = self.members.pop(old_id)
        self.end_waits(member, ErrorCode.FENCED_INSTANCE_ID, step, told_id=old_id)
        self.timers.cancel(TimerKey(self.id, "session", old_id))
        self.pending_syncs.discard(old_id)
        member.id, member.is_new = new_id, False
        self.members[new_id] = member
        assert member.instance_id is not None
        self.static_ids[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def end_waits(self, member: ClassicMember, code: ErrorCode, step: Step, told_id: str) -> None:
        if member.joining is not None:
            step.answer(member.joining, JoinGroupResponse(error_code=code, member_id=told_id))
        if member.syncing is not None:
            step.answer(member.syncing, SyncGroupResponse(error_code=code))
        member.joining = member.syncing = None

    def elect_joined_leader(self) -> bool:
        """A leader that did not join again is replaced by one who did; False: nobody did."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is None:
            joined = next((m.id for m in self.members.values() if m.joining is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        following = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.move_to(following, now_ms)
        self.pending_syncs.clear()

    def _read_subscriptions(self) -> frozenset[str] | None:
        """None where the group's protocol is not the consumers', or we cannot read it."""
        if not self.is_consumer or (self.members and self.protocol is None):
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(decode_subscription(member.metadata(self.protocol)).topics)
        except DecodeError:
            return None
        return frozenset(topics)

    # -- the log ------------------------------------------------------------------------------

    def record(self, assignments: Mapping[str, bytes]) -> StateRecord:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=[m.record(self.protocol, assignments.get(m.id, b"")) for m in self.members.values()],
        )
        key = encode_key(GroupMetadataKey(group=self.id))
        return StateRecord(key, encode_versioned(value, _VALUE_VERSION))

    def tombstones(self) -> list[StateRecord]:
        return [StateRecord(encode_key(GroupMetadataKey(group=self.id)), None)]

    def restore(self, value: GroupMetadataValue) -> None:
        """Becomes what the log says: the last stable generation."""
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.generation = value.generation
        self.leader_id = value.leader
        self.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        self.state_since_ms = value.current_state_timestamp
        for stored in value.members:
            self.add(ClassicMember.restored(stored, value.protocol), value.protocol_type)
        self.subscribed_topics = self._read_subscriptions()
