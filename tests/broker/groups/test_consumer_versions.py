"""The consumer protocol (KIP-848) byte by byte, on our broker and on Apache Kafka: the same epochs and errors."""

from __future__ import annotations

import pytest

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
from tests.broker.groups.test_versions import group
from tests.broker.kit import Wire, create_topic, wait_until

__all__ = ["group"]


class Members:
    """Sends heartbeats of members of one group that is subscribed to one topic of four partitions."""

    def __init__(self, wire: Wire, group: str) -> None:
        self.wire = wire
        self.group = group
        made = create_topic(wire, partitions=4)
        self.topic, self.topic_id = made.name or "", made.topic_id

    def beat(
        self,
        member: str,
        epoch: int,
        owned: list[int] | None = None,
        instance: str | None = None,
        version: int = 1,
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == 0
        told = [] if owned is None else [RequestTopicPartitions(topic_id=self.topic_id, partitions=owned)]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=told if joins or owned is not None else None,
        )
        return self.wire.ask(request, version, ConsumerGroupHeartbeatResponse)


@pytest.fixture
def members(wire: Wire, group: str) -> Members:
    return Members(wire, group)


def owned(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return sorted(p for topic in answer.assignment.topic_partitions for p in topic.partitions)


class Client:
    """A member that does what it is told, one heartbeat at a time."""

    def __init__(self, members: Members, name: str) -> None:
        self.members = members
        self.name = name
        first = members.beat(name, 0)
        assert first.error_code == ErrorCode.NONE
        self.epoch, self.owned = first.member_epoch, owned(first)

    def beat(self) -> list[int]:
        answer = self.members.beat(self.name, self.epoch, self.owned)
        assert answer.error_code == ErrorCode.NONE
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = owned(answer)
        assert self.owned is not None
        return self.owned


def test_partitions_move_from_one_member_to_another_and_never_have_two_owners(members: Members) -> None:
    a = Client(members, "a")
    wait_until(lambda: a.beat() == [0, 1, 2, 3])
    b = Client(members, "b")

    def shared() -> bool:
        mine, yours = a.beat(), b.beat()
        assert not set(mine) & set(yours)
        return len(mine) == len(yours) == 2

    wait_until(shared)
    assert members.beat("b", -1).member_epoch == -1
    wait_until(lambda: a.beat() == [0, 1, 2, 3])


def test_epochs_that_are_wrong_are_fenced(members: Members) -> None:
    epoch = members.beat("a", 0).member_epoch
    assert members.beat("a", epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert members.beat("b", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert members.beat("a", -3).error_code == ErrorCode.INVALID_REQUEST
    assert members.beat("", 0).error_code == ErrorCode.INVALID_REQUEST
    assert members.beat("", 0, version=0).error_code == ErrorCode.NONE


def test_a_member_may_join_again_under_its_id(members: Members) -> None:
    members.beat("a", 0)
    members.beat("b", 0)
    assert members.beat("a", 0).error_code == ErrorCode.NONE


def test_a_static_member_that_was_away_has_its_partitions_back(members: Members) -> None:
    first = members.beat("a", 0, instance="one")
    assert members.beat("b", 0, instance="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert members.beat("a", -2, instance="one").member_epoch == -2
    back = members.beat("b", 0, instance="one")
    assert (back.error_code, back.member_epoch, owned(back)) == (0, first.member_epoch, owned(first))
    assert members.beat("a", first.member_epoch, instance="one").error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", range(2))
def test_a_group_is_described(members: Members, version: int) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=[members.group])
    missing = members.wire.ask(request, version, ConsumerGroupDescribeResponse).groups[0]
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    epoch = members.beat("a", 0).member_epoch

    def stable() -> bool:
        found = members.wire.ask(request, version, ConsumerGroupDescribeResponse).groups[0]
        return found.group_state == "Stable"

    wait_until(stable)
    found = members.wire.ask(request, version, ConsumerGroupDescribeResponse).groups[0]
    (member,) = found.members
    (assigned,) = member.assignment.topic_partitions
    assert (found.group_epoch, found.assignment_epoch, found.assignor_name) == (epoch, epoch, "uniform")
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == (
        "a",
        epoch,
        [members.topic],
    )
    assert (assigned.topic_name, assigned.topic_id) == (members.topic, members.topic_id)
    assert sorted(assigned.partitions) == [0, 1, 2, 3]
    assert member.target_assignment == member.assignment
    assert member.member_type == (1 if version else -1)
