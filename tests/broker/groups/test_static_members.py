"""Static members: an instance id that outlives the process behind it."""

from __future__ import annotations

import pytest

from oncestream.wire.error_codes import ErrorCode
from tests.broker.groups.kit import World


@pytest.fixture
def world() -> World:
    return World()


def test_a_static_member_that_does_not_join_again_in_time_stays_until_its_session_ends(world: World) -> None:
    dynamic, static = world.stable_group(None, "static")
    again = world.send_join(dynamic, session_ms=600_000)
    for _ in range(10):
        assert again.waits
        world.heartbeat(static, 2, "static")
        world.advance(6_000)
    assert [m.member_id for m in again.join.members] == [dynamic, static]
    world.advance(10_000)
    assert list(world.group().members) == [dynamic]


def test_an_administrator_removes_a_static_member_by_its_instance_id(world: World) -> None:
    world.stable_group("one", "two")
    assert world.leave("", instance="two") == ErrorCode.NONE
    assert world.leave("", instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(world.group().static_ids) == ["one"]


def test_a_static_member_that_comes_back_causes_no_rebalance_and_keeps_its_assignment(world: World) -> None:
    leader, follower = world.stable_group("one", "two")
    instance = world.instance(follower)
    back = world.send_join(instance=instance).join
    assert (back.error_code, back.generation_id, back.leader) == (ErrorCode.NONE, 2, leader)
    assert world.group().state == "Stable"
    assert world.send_sync(back.member_id, 2, instance=instance).sync.assignment == b"assigned to 1"
    assert world.heartbeat(follower, 2, instance) == ErrorCode.FENCED_INSTANCE_ID
    assert world.send_join(follower, instance=instance).join.error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_static_leader_that_comes_back_does_not_assign_anew(
    world: World, version: int, skips: bool
) -> None:
    leader, _ = world.stable_group("one", "two")
    back = world.send_join(instance=world.instance(leader), version=version).join
    assert back.skip_assignment is skips
    assert back.leader == (back.member_id if skips else leader)
    assert len(back.members) == (2 if skips else 0)
    world.restart()
    assert world.group().leader_id == back.member_id, "the new leader is in the log"


def test_a_static_member_that_comes_back_with_another_protocol_causes_a_rebalance(world: World) -> None:
    world.send_join(instance="one", protocols={"a": b"", "b": b""})
    member = world.group().leader_id
    world.send_sync(member, 1, {member: b""}, instance="one")
    back = world.send_join(instance="one", protocols={"b": b""})
    assert (back.join.generation_id, back.join.protocol_name) == (2, "b")


def test_the_waiting_request_of_a_replaced_static_member_is_fenced(world: World) -> None:
    world.stable_group(None)
    waiting = world.send_join(instance="one")
    assert waiting.waits
    second = world.send_join(instance="one")
    assert waiting.join.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert second.waits
