"""A group of the consumer protocol (KIP-848): its members, what each is to own, and what each owns now.

All of it is in the log; `DurableState.replay` alone changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Final

from oncestream.wire.error_codes import ErrorCode, KafkaError

LEAVE: Final = -1
LEAVE_STATIC: Final = -2

Assignment = Mapping[bytes, frozenset[int]]  # partitions by topic id
Place = tuple[bytes, int]  # topic id and partition
NONE_ASSIGNED: Final[Assignment] = {}


class ConsumerState(StrEnum):
    """Where a group stands; it follows from its epochs and members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target assignment is older than the group
    RECONCILING = "Reconciling"  # members are on their way to the target
    STABLE = "Stable"


class MemberState(IntEnum):
    """How far a member is on its way to its target, as it stands in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must give partitions up first
    UNRELEASED_PARTITIONS = 2  # others must
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member: what it told about itself, then where it stands."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    since: Mapping[Place, int] = field(default_factory=dict)  # the epoch in which it got each partition

    def at_epoch(
        self, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
    ) -> ConsumerMember:
        places = (*places_of(assigned), *places_of(revoking))
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
            since={place: self.since.get(place, epoch) for place in places},
        )

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class ConsumerGroup:
    """What the log says of one group."""

    protocol_type = "consumer"
    is_consumer = True

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.metadata_hash = 0  # of the topics it is subscribed to, when the epoch was set
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, Assignment] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.owners: dict[Place, str] = {}  # who owns, or has yet to give up, a partition
        self.regex_topics: dict[str, frozenset[str]] = {}  # what regular expressions match

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroup):
            return NotImplemented
        return self._durable() == other._durable()

    __hash__ = None  # type: ignore[assignment]

    # -- questions ----------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled(self.target_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        if member.regex:
            return member.topics | self.regex_topics.get(member.regex, frozenset())
        return member.topics

    def member(self, member_id: str) -> ConsumerMember:
        found = self.members.get(member_id)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}."
            )
        return found

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def check_epoch(self, member_id: str, epoch: int) -> None:
        """Only members of the current epoch read offsets."""
        if epoch != self.member(member_id).epoch:
            raise self._stale(member_id, epoch)

    def check_commit_epoch(self, member_id: str, epoch: int) -> None:
        """Members may commit in an older epoch what they have owned since: see `may_commit`."""
        if epoch < 0 or epoch > self.member(member_id).epoch:
            raise self._stale(member_id, epoch)

    def may_commit(self, member_id: str, epoch: int, place: Place) -> bool:
        """Nobody else can have owned the partition between that epoch and now."""
        member = self.members[member_id]
        since = member.since.get(place)
        return epoch == member.epoch or (since is not None and epoch >= since)

    def _stale(self, member_id: str, epoch: int) -> KafkaError:
        expected = self.members[member_id].epoch
        return KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"The received member epoch {epoch} does not match the expected member epoch {expected}.",
        )

    # -- changes, by replay only --------------------------------------------------------------

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.id)
        if old is not None:
            self._disown(old)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.id
        self.members[member.id] = member
        for place in (*places_of(member.assigned), *places_of(member.revoking)):
            self.owners[place] = member.id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._disown(member)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for place in (*places_of(member.assigned), *places_of(member.revoking)):
            # Compaction may have dropped the record by which its last owner gave it up.
            if self.owners.get(place) == member.id:
                del self.owners[place]

    def _durable(self) -> tuple[object, ...]:
        return (
            self.id,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.members,
            self.target,
            self.owners,
            self.regex_topics,
        )


def preferred_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The one that most members ask for."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return votes.most_common(1)[0][0] or default if votes else default


def places_of(assignment: Assignment) -> Iterable[Place]:
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition
