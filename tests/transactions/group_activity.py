"""What members of groups do, at random, by raw requests: every step leaves its group settled."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from oncestream.wire.codec import encode
from oncestream.wire.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from oncestream.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncestream.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncestream.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncestream.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncestream.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.kit import Wire, wait_until

SESSION_MS: Final = 1_800_000
MEMBERS_MAX: Final = 3
LEAVE, LEAVE_STATIC = -1, -2


@dataclass
class Member:
    """A member of a group of either protocol; static where it has an instance id."""

    id: str = ""
    instance: str | None = None
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict)


@dataclass
class ClassicGroup:
    """Members that join, get what the leader gives them, leave."""

    name: str
    members: list[Member] = field(default_factory=list)
    generation: int = -1

    def join(self, wire: Wire, bootstrap: str, topics: list[str], instance: str | None) -> None:
        member = Member(instance=instance)
        if instance is None:
            refused = wire.ask(self._joining(member, topics), 9, JoinGroupResponse)
            assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED, refused
            member.id = refused.member_id
        self.members.append(member)
        self._rebalance(bootstrap, topics)

    def leave(self, wire: Wire, bootstrap: str, topics: list[str], member: Member) -> None:
        self.members.remove(member)
        who = MemberIdentity(member_id=member.id, group_instance_id=member.instance)
        answer = wire.ask(LeaveGroupRequest(group_id=self.name, members=[who]), 5, LeaveGroupResponse)
        assert answer.members[0].error_code == 0, answer
        if self.members:
            self._rebalance(bootstrap, topics)

    def _rebalance(self, bootstrap: str, topics: list[str]) -> None:
        """All join, on connections of their own: the newest first, for it sets the rebalance off."""
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(bootstrap)) for _ in self.members]
            wires[-1].send(self._joining(self.members[-1], topics), 9)
            if len(self.members) > 1:
                wait_until(lambda: self._state(wires[0]) == "PreparingRebalance")
            for member, wire in zip(self.members[:-1], wires[:-1], strict=True):
                wire.send(self._joining(member, topics), 9)
            for member, wire in zip(self.members, wires, strict=True):
                answer = wire.receive(JoinGroupResponse, 9)
                assert answer.error_code == 0, answer
                member.id, self.generation, leader = answer.member_id, answer.generation_id, answer.leader
            for member, wire in zip(self.members, wires, strict=True):
                wire.send(self._syncing(member, topics if member.id == leader else []), 5)
            for wire in wires:
                told = wire.receive(SyncGroupResponse, 5)
                assert told.error_code == 0, told

    def _state(self, wire: Wire) -> str:
        request = DescribeGroupsRequest(groups=[self.name])
        return wire.ask(request, 5, DescribeGroupsResponse).groups[0].group_state

    def _joining(self, member: Member, topics: list[str]) -> JoinGroupRequest:
        subscription = encode(ConsumerProtocolSubscription(topics=topics), 0)
        return JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=member.id,
            group_instance_id=member.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00" + subscription)],
        )

    def _syncing(self, member: Member, topics: list[str]) -> SyncGroupRequest:
        """The leader gives each member partition 0 of one topic, as far as they go round."""
        assignments = []
        for other, topic in zip(self.members, topics, strict=False):
            given = ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartition(topic=topic, partitions=[0])]
            )
            assignments.append(
                SyncGroupRequestAssignment(member_id=other.id, assignment=b"\x00\x00" + encode(given, 0))
            )
        return SyncGroupRequest(
            group_id=self.name,
            generation_id=self.generation,
            member_id=member.id,
            group_instance_id=member.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )


@dataclass
class ConsumerGroup:
    """Members of the consumer protocol (KIP-848), which the broker assigns."""

    name: str
    members: list[Member] = field(default_factory=list)

    def join(self, wire: Wire, topics: list[str] | None, regex: str | None, instance: str | None) -> None:
        member = Member(str(uuid.uuid4()), instance)
        self.members.append(member)
        self._beat(wire, member, topics=topics, regex=regex)
        self.settle(wire)

    def leave(self, wire: Wire, member: Member) -> None:
        self.members.remove(member)
        member.epoch = LEAVE
        self._beat(wire, member)
        self.settle(wire)

    def settle(self, wire: Wire) -> None:
        """Heartbeats until the group is stable, members take and give up what they are told to."""
        if not self.members:
            return

        def stable() -> bool:
            for member in self.members:
                self._beat(wire, member)
            request = ConsumerGroupDescribeRequest(group_ids=[self.name])
            (group,) = wire.ask(request, 1, ConsumerGroupDescribeResponse).groups
            return group.group_state == "Stable"

        wait_until(stable)

    def _beat(
        self, wire: Wire, member: Member, topics: list[str] | None = None, regex: str | None = None
    ) -> None:
        joining = member.epoch == 0
        owned = [RequestTopicPartitions(topic_id=t, partitions=p) for t, p in member.owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name,
            member_id=member.id,
            member_epoch=member.epoch,
            instance_id=member.instance,
            rebalance_timeout_ms=SESSION_MS if joining else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            topic_partitions=owned,
        )
        answer = wire.ask(request, 1, ConsumerGroupHeartbeatResponse)
        assert answer.error_code == 0, answer
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.owned = {given.topic_id: given.partitions for given in answer.assignment.topic_partitions}


@dataclass
class GroupActivity:
    """Groups of both protocols, and groups that only keep offsets."""

    chance: random.Random
    topics: dict[str, int]
    bootstrap: str = ""
    classic: list[ClassicGroup] = field(
        default_factory=lambda: [ClassicGroup(f"classic-{n}") for n in range(3)]
    )
    modern: list[ConsumerGroup] = field(
        default_factory=lambda: [ConsumerGroup(f"modern-{n}") for n in range(3)]
    )
    _instances: int = 0

    @property
    def steps(self) -> list[Callable[[Wire], None]]:
        return [
            self.join_classic, self.join_classic, self.leave_classic,
            self.join_modern, self.join_modern, self.leave_modern,
            self.commit, self.commit, self.commit, self.delete_group,
        ]  # fmt: skip

    @property
    def all(self) -> list[ClassicGroup | ConsumerGroup]:
        return [*self.classic, *self.modern]

    def settle(self, wire: Wire) -> None:
        for group in self.modern:
            group.settle(wire)

    def join_classic(self, wire: Wire) -> None:
        group = self.chance.choice(self.classic)
        if len(group.members) < MEMBERS_MAX:
            group.join(wire, self.bootstrap, list(self.topics), self._instance())

    def leave_classic(self, wire: Wire) -> None:
        group = self.chance.choice(self.classic)
        if group.members:
            group.leave(wire, self.bootstrap, list(self.topics), self.chance.choice(group.members))

    def join_modern(self, wire: Wire) -> None:
        group = self.chance.choice(self.modern)
        if len(group.members) < MEMBERS_MAX:
            by_name = self.chance.random() < 0.7
            topics = self.chance.sample(list(self.topics), min(2, len(self.topics))) if by_name else None
            group.join(wire, topics, None if by_name else "topic-.*", self._instance())

    def leave_modern(self, wire: Wire) -> None:
        group = self.chance.choice(self.modern)
        if group.members:
            group.leave(wire, self.chance.choice(group.members))

    def commit(self, wire: Wire) -> None:
        """By a member of a group, or by an outsider to a group that has none."""
        group = self.chance.choice(self.all)
        member = self.chance.choice(group.members) if group.members else None
        generation = -1
        if member is not None:
            generation = group.generation if isinstance(group, ClassicGroup) else member.epoch
        topic = self.chance.choice(list(self.topics))
        where = OffsetCommitRequestPartition(
            partition_index=self.chance.randrange(self.topics[topic]),
            committed_offset=self.chance.randint(0, 1000),
            committed_metadata=self.chance.choice(["", "metadata"]),
        )
        request = OffsetCommitRequest(
            group_id=group.name,
            generation_id_or_member_epoch=generation,
            member_id="" if member is None else member.id,
            group_instance_id=None if member is None else member.instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[where])],
        )
        answer = wire.ask(request, 9, OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def delete_group(self, wire: Wire) -> None:
        group = self.chance.choice(self.all)
        answer = wire.ask(DeleteGroupsRequest(groups_names=[group.name]), 2, DeleteGroupsResponse)
        code = answer.results[0].error_code
        assert code in {0, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND}, answer
        assert bool(group.members) == (code == ErrorCode.NON_EMPTY_GROUP)

    def _instance(self) -> str | None:
        self._instances += 1
        return f"instance-{self._instances}" if self.chance.random() < 0.3 else None
