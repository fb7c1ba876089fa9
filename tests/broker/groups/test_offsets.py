"""Committed offsets: who may commit, what a transaction holds back, what expires, what a deleted topic takes along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncestream.broker.groups import commits
from oncestream.broker.groups.step import Step
from oncestream.broker.state_log import Producer
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.broker.groups.kit import World

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
ONE = Producer(1, 0)
TWO = Producer(2, 0)


@pytest.fixture
def world() -> World:
    return World()


def test_a_consumer_without_a_group_membership_commits_while_the_group_is_empty(world: World) -> None:
    assert world.commit(5) == ErrorCode.NONE
    assert world.committed() == 5
    world.restart()
    assert world.committed() == 5
    assert world.group().state == "Empty"


def test_a_group_with_members_takes_no_commit_from_outside(world: World) -> None:
    world.stable_group(None)
    assert world.commit(5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.committed() is None


def test_members_commit_in_their_generation_only(world: World) -> None:
    member, static = world.stable_group(None, "static")
    assert world.commit(1, member, 2) == ErrorCode.NONE
    assert world.commit(2, member, 1) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(2, "stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(2, member, 2, instance="static") == ErrorCode.FENCED_INSTANCE_ID
    assert world.commit(3, static, 2, instance="static") == ErrorCode.NONE
    assert world.committed() == 3


def test_members_may_commit_while_they_are_to_join_again_but_not_before_they_have_their_assignment(
    world: World,
) -> None:
    (leader,) = world.stable_group(None)
    new = world.new_member()
    assert world.commit(1, leader, 1) == ErrorCode.NONE
    world.send_join(leader)
    assert world.commit(2, new.join.member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(world: World) -> None:
    (member,) = world.stable_group(None)
    world.advance(9_000)
    world.commit(1, member, 1)
    world.advance(9_000)
    assert world.heartbeat(member, 1) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_member_of_no_group_cannot_commit(world: World, version: int, code: ErrorCode) -> None:
    assert world.commit(1, "member", 1, version=version) == code


def test_metadata_come_back_and_have_a_limit(world: World) -> None:
    assert world.commit(1, metadata="m" * 4096) == ErrorCode.NONE
    assert world.commit(2, metadata="m" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    found = world.groups.state.offsets.get("g", "t", 0)
    assert found is not None
    assert (found.offset, found.metadata) == (1, "m" * 4096)


def test_a_commit_that_cannot_be_written_is_told_so_and_changes_nothing(world: World) -> None:
    world.commit(1)
    world.log.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk gone")
    assert world.commit(2) == ErrorCode.NOT_COORDINATOR
    assert world.committed() == 1


def test_offsets_of_a_transaction_count_when_it_commits(world: World) -> None:
    world.commit(1)
    assert world.commit(7, producer=ONE) == ErrorCode.NONE
    assert world.committed() == 1
    assert world.groups.state.offsets.is_pending("g", "t", 0)
    world.restart()
    assert world.groups.state.offsets.is_pending("g", "t", 0)
    world.end_transaction(ONE, commit=True)
    assert world.committed() == 7
    assert not world.groups.state.offsets.is_pending("g", "t", 0)


def test_offsets_of_an_aborted_transaction_never_were(world: World) -> None:
    world.commit(1)
    world.commit(7, producer=ONE)
    world.end_transaction(ONE, commit=False)
    assert world.committed() == 1
    assert not world.groups.state.offsets.is_pending("g", "t", 0)


def test_of_plain_and_transactional_commits_the_last_one_made_counts(world: World) -> None:
    world.commit(7, producer=ONE)
    world.commit(8)
    world.end_transaction(ONE, commit=True)
    assert world.committed() == 8


def test_two_transactions_on_one_partition_do_not_mix(world: World) -> None:
    world.commit(7, producer=ONE)
    world.commit(9, producer=TWO)
    world.end_transaction(TWO, commit=False)
    assert world.groups.state.offsets.is_pending("g", "t", 0)
    world.end_transaction(ONE, commit=True)
    assert world.committed() == 7


def test_a_marker_ends_the_transaction_in_its_own_partition_of_the_log_only(world: World) -> None:
    other = next(
        f"g{i}" for i in range(100) if world.log.partition_of(f"g{i}") != world.log.partition_of("g")
    )
    world.commit(7, producer=ONE)
    world.commit(8, producer=ONE, group=other)
    world.end_transaction(ONE, commit=True)
    assert world.committed() == 7
    assert world.committed(group=other) is None
    world.end_transaction(ONE, commit=True, group=other)
    assert world.committed(group=other) == 8


def test_a_transaction_need_not_name_a_member_but_if_it_does_it_must_be_right(world: World) -> None:
    (member,) = world.stable_group(None)
    assert world.commit(1, producer=ONE) == ErrorCode.NONE
    assert world.commit(1, member, 1, producer=ONE) == ErrorCode.NONE
    assert world.commit(1, member, 0, producer=ONE) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(1, "stranger", 1, producer=ONE) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(1, "m", 1, producer=ONE, group="no such group") == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(1, producer=ONE, group="") == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_a_consumer_without_membership_expire_after_their_last_commit(world: World) -> None:
    world.commit(1, partition=0)
    world.advance(DAY_MS)
    world.commit(1, partition=1)
    world.advance(WEEK_MS - DAY_MS)
    assert (world.committed(partition=0), world.committed(partition=1)) == (None, 1)
    world.advance(DAY_MS)
    assert world.group() is None


def test_offsets_of_a_group_expire_after_it_became_empty(world: World) -> None:
    (member,) = world.stable_group(None)
    world.commit(1, member, 1)
    for _ in range(3):
        world.advance(9_000)
        world.heartbeat(member, 1)
    world.leave(member)
    world.advance(WEEK_MS - 600_000)
    assert world.committed() == 1
    world.advance(1_200_000)
    assert world.group() is None


def test_offsets_that_a_living_group_is_subscribed_to_never_expire(world: World) -> None:
    world.settings = replace(
        world.settings, group_session_timeout_ms_max=3 * WEEK_MS, offsets_retention_ms=DAY_MS
    )
    world.restart()
    member = world.new_member(session_ms=3 * WEEK_MS).join.member_id
    world.send_sync(member, 1, {member: b""})
    world.commit(1, member, 1, topic="t")
    world.commit(1, member, 1, topic="not subscribed")
    world.advance(WEEK_MS)
    assert (world.committed("t"), world.committed("not subscribed")) == (1, None)


def test_a_retention_given_with_the_commit_counts(world: World) -> None:
    world.commit(1, version=2, retention_ms=600_000)
    world.advance(599_999)
    assert world.committed() == 1
    world.advance(600_001)
    assert world.committed() is None


def test_offsets_that_a_transaction_holds_do_not_expire(world: World) -> None:
    world.commit(1)
    world.commit(2, producer=ONE)
    world.advance(2 * WEEK_MS)
    assert world.committed() == 1
    assert world.group() is not None


def test_a_deleted_topic_takes_its_offsets_along_the_pending_ones_too(world: World) -> None:
    world.commit(1, topic="gone")
    world.commit(2, topic="stays")
    world.commit(3, topic="gone", partition=1, producer=ONE)
    world.groups.topic_deleted("gone")
    world.check_replay()
    world.end_transaction(ONE, commit=True)
    assert [world.committed("gone", 0), world.committed("gone", 1)] == [None, None]
    assert world.committed("stays") == 2


def test_groups_without_members_can_be_deleted_with_their_offsets(world: World) -> None:
    assert world.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = world.stable_group(None)
    world.commit(1, member, 1)
    assert world.delete() == ErrorCode.NON_EMPTY_GROUP
    world.leave(member)
    assert world.delete() == ErrorCode.NONE
    assert (world.group(), world.committed()) == (None, None)
    world.restart()
    assert world.group() is None


def test_offsets_are_deleted_only_in_topics_the_group_is_not_subscribed_to(world: World) -> None:
    (member,) = world.stable_group(None)
    world.commit(1, member, 1, topic="t")
    world.commit(1, member, 1, topic="other")
    step = Step(world.clock.ms)
    assert commits.delete(world.groups, "g", {"t": [0], "other": [0]}, step) == {"t"}
    world.groups.runner.finish("g", step)
    world.check_replay()
    assert (world.committed("t"), world.committed("other")) == (1, None)


def test_offsets_of_a_living_group_that_are_not_consumers_cannot_be_deleted(world: World) -> None:
    world.new_member(protocol_type="connect")
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        commits.delete(world.groups, "g", {"t": [0]}, Step(world.clock.ms))
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        commits.delete(world.groups, "no such group", {"t": [0]}, Step(world.clock.ms))
