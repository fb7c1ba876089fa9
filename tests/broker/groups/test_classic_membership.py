"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: who is in a classic group, and in which generation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.broker.groups.kit import SUBSCRIBED_TO_T, World

JUMP_MS = 6 * 3_600_000


@pytest.fixture
def world() -> World:
    return World()


def test_from_version_4_a_new_member_first_gets_its_id(world: World) -> None:
    refused = world.send_join(version=4).join
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("client-")
    assert world.send_join(refused.member_id).join.error_code == ErrorCode.NONE


def test_before_version_4_a_new_member_is_in_at_once(world: World) -> None:
    joined = world.send_join(version=3).join
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)


def test_the_first_member_leads_and_learns_who_is_in(world: World) -> None:
    joined = world.new_member().join
    assert joined.leader == joined.member_id
    assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, SUBSCRIBED_TO_T)]
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")


def test_a_new_group_waits_for_more_members_as_long_as_the_settings_say() -> None:
    world = World()
    world.settings = replace(world.settings, group_initial_rebalance_delay_ms=3_000)
    world.restart()
    first = world.new_member()
    world.advance(2_999)
    assert first.waits
    second = world.new_member()
    world.advance(1)
    assert first.waits, "a new member extends the wait"
    world.advance(3_000)
    assert len(first.join.members) == 2
    assert second.join.generation_id == first.join.generation_id == 1


def test_a_new_member_waits_until_the_others_have_joined_again(world: World) -> None:
    (leader,) = world.stable_group(None)
    new = world.new_member()
    assert new.waits
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.send_join(leader)
    assert again.join.generation_id == new.join.generation_id == 2
    assert new.join.members == [], "only the leader learns who is in"
    assert len(again.join.members) == 2


def test_members_wait_for_the_assignment_of_the_leader(world: World) -> None:
    first = world.new_member().join
    second = world.new_member()
    world.send_join(first.member_id)
    follower = second.join.member_id
    waiting = world.send_sync(follower, 2)
    assert waiting.waits
    lead = world.send_sync(first.member_id, 2, {follower: b"yours", first.member_id: b"mine"})
    assert (lead.sync.assignment, waiting.sync.assignment) == (b"mine", b"yours")
    assert world.send_sync(follower, 2).sync.assignment == b"yours", "asked again in a stable group"


def test_an_assignment_is_told_only_when_it_is_durable(world: World) -> None:
    member = world.new_member().join.member_id
    world.log.holds_back = True
    sync = world.send_sync(member, 1, {member: b"mine"})
    assert sync.waits
    assert world.group().state == "CompletingRebalance"
    world.log.flush()
    assert sync.sync.assignment == b"mine"
    assert world.group().state == "Stable"


def test_an_assignment_that_cannot_be_written_is_refused_and_tried_again(world: World) -> None:
    member = world.new_member().join.member_id
    world.log.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk gone")
    assert world.send_sync(member, 1, {member: b"mine"}).sync.error_code == ErrorCode.NOT_COORDINATOR
    assert world.group().state == "PreparingRebalance"
    world.log.refuses = None
    assert world.send_join(member).join.generation_id == 2


def test_nobody_waits_for_a_member_whose_group_could_not_be_written(world: World) -> None:
    world.log.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    assert world.send_join(version=4).join.error_code == ErrorCode.NOT_COORDINATOR
    world.log.refuses = None
    member = world.new_member().join.member_id
    assert world.send_join(member, protocols={"range": b"other"}).join.generation_id == 2


def test_a_follower_that_joins_again_unchanged_causes_no_rebalance(world: World) -> None:
    _, follower = world.stable_group(None, None)
    again = world.send_join(follower).join
    assert (again.generation_id, world.group().state) == (2, "Stable")


def test_a_follower_with_another_subscription_causes_a_rebalance(world: World) -> None:
    _, follower = world.stable_group(None, None)
    assert world.send_join(follower, protocols={"range": b"other"}).waits
    assert world.group().state == "PreparingRebalance"


def test_a_leader_that_joins_again_causes_a_rebalance(world: World) -> None:
    leader, _ = world.stable_group(None, None)
    assert world.send_join(leader).waits
    assert world.group().state == "PreparingRebalance"


def test_a_member_that_syncs_during_a_rebalance_must_join_again(world: World) -> None:
    leader, follower = world.stable_group(None, None)
    world.send_join(leader)
    assert world.send_sync(follower, 2).sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_while_others_wait_for_their_assignment_sends_them_back_to_join(world: World) -> None:
    first = world.new_member().join.member_id
    second = world.new_member()
    world.send_join(first)
    waiting = world.send_sync(second.join.member_id, 2)
    world.new_member()
    assert waiting.sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_that_most_members_prefer_is_chosen_of_those_all_know(world: World) -> None:
    first = world.new_member(protocols={"a": b"", "b": b"", "c": b""}).join.member_id
    world.new_member(protocols={"c": b"", "b": b""})
    world.send_join(first, protocols={"a": b"", "b": b"", "c": b""})
    third = world.new_member(protocols={"b": b"", "c": b""})
    for member in list(world.group().members.values()):
        if member.joining is None:
            world.send_join(member.id, protocols=member.protocols)
    assert third.join.protocol_name == "b"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "group": "no such group"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "instance": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"other": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_are_refused(world: World, options: dict[str, object], code: ErrorCode) -> None:
    world.stable_group(None)
    assert world.send_join(**options).join.error_code == code  # type: ignore[arg-type]


def test_a_full_group_refuses_new_members_only() -> None:
    world = World()
    world.settings = replace(world.settings, group_size_max=1)
    world.restart()
    (member,) = world.stable_group(None)
    assert world.send_join().join.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.send_join(member).join.error_code == ErrorCode.NONE


def test_heartbeats_of_strangers_and_of_the_past_are_refused(world: World) -> None:
    (member,) = world.stable_group(None)
    assert world.heartbeat(member, 1) == ErrorCode.NONE
    assert world.heartbeat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_not_heard_of_for_its_session_timeout_is_out(world: World) -> None:
    leader, follower = world.stable_group(None, None)
    world.advance(6_000)
    assert world.heartbeat(leader, 2) == ErrorCode.NONE
    world.advance(4_000)
    assert list(world.group().members) == [leader]
    assert world.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, 2) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("jump_ms", [-JUMP_MS, JUMP_MS], ids=["back", "forward"])
def test_a_clock_that_is_set_makes_no_session_longer_or_shorter(world: World, jump_ms: int) -> None:
    leader, follower = world.stable_group(None, None)
    world.clock.wrong_by_ms = jump_ms
    world.advance(6_000)
    assert world.heartbeat(leader, 2) == ErrorCode.NONE
    assert list(world.group().members) == [leader, follower]
    world.advance(4_000)
    assert list(world.group().members) == [leader]


def test_the_last_member_that_expires_leaves_an_empty_group(world: World) -> None:
    world.stable_group(None)
    world.advance(10_000)
    assert (world.group().state, world.group().generation) == ("Empty", 2)


def test_a_member_that_does_not_join_again_in_time_is_left_out(world: World) -> None:
    leader, follower = world.stable_group(None, None)
    again = world.send_join(leader, session_ms=600_000)
    for _ in range(9):
        world.advance(6_000)
        assert world.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert again.waits
    world.advance(6_000)
    assert [m.member_id for m in again.join.members] == [leader]


def test_a_member_that_never_syncs_is_out_after_the_rebalance_timeout(world: World) -> None:
    first = world.new_member(session_ms=600_000).join.member_id
    second = world.new_member(session_ms=600_000)
    world.send_join(first, session_ms=600_000)
    world.send_sync(first, 2, {first: b"mine"})
    world.advance(60_000)
    assert list(world.group().members) == [first]
    assert second.join.member_id not in world.group().members
    assert world.group().state == "PreparingRebalance"


def test_an_id_given_out_is_good_for_one_session_timeout(world: World) -> None:
    world.stable_group(None)
    member = world.send_join().join.member_id
    world.heartbeat(world.group().leader_id, 1)
    world.advance(9_999)
    world.heartbeat(world.group().leader_id, 1)
    world.advance(1)
    assert world.send_join(member).join.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_members_that_were_given_an_id(world: World) -> None:
    (leader,) = world.stable_group(None)
    pending = world.send_join().join.member_id
    again = world.send_join(leader)
    assert again.waits
    world.send_join(pending)
    assert len(again.join.members) == 2


def test_a_member_that_leaves_starts_a_rebalance(world: World) -> None:
    leader, follower = world.stable_group(None, None)
    assert world.leave(follower) == ErrorCode.NONE
    assert world.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.leave(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("x", group="no such group") == ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_leaves_while_it_waits_gets_an_answer(world: World) -> None:
    world.stable_group(None)
    waiting = world.new_member()
    new = next(m.id for m in world.group().members.values() if m.is_new)
    assert world.leave(new) == ErrorCode.NONE
    assert waiting.join.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stable_group_survives_a_restart_with_members_and_assignments(world: World) -> None:
    leader, follower = world.stable_group(None, "static")
    world.restart()
    assert (world.group().state, world.group().generation) == ("Stable", 2)
    for member in (leader, follower):
        assert world.heartbeat(member, 2, world.instance(member)) == ErrorCode.NONE
    assert world.send_sync(follower, 2, instance=world.instance(follower)).sync.assignment == b"assigned to 1"
    world.advance(10_000)
    assert world.group().state in ("PreparingRebalance", "Empty"), "sessions run after a restart, too"


def test_a_rebalance_that_was_under_way_is_forgotten_by_a_restart(world: World) -> None:
    (leader,) = world.stable_group(None)
    world.new_member()
    world.restart()
    assert list(world.group().members) == [leader]
    assert world.heartbeat(leader, 1) == ErrorCode.NONE
