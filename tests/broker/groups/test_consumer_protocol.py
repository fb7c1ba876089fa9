"""The consumer protocol (KIP-848): epochs, targets, and partitions that never have two owners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncestream.broker.state_log import Producer
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.broker.groups.kit import World


@pytest.fixture
def world() -> World:
    world = World()
    world.make_topic("t", 4)
    return world


def owned(answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return [p for topic in answer.assignment.topic_partitions for p in topic.partitions]


def test_the_first_member_gets_everything_at_once(world: World) -> None:
    answer = world.beat("a", 0, topics=["t"])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert owned(answer) == [0, 1, 2, 3]
    assert world.group().state == "Stable"


def test_a_heartbeat_without_news_is_answered_without_news_and_writes_nothing(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    written = sum(map(len, world.log.partitions))
    assert owned(world.beat("a", 1)) is None
    assert sum(map(len, world.log.partitions)) == written


def test_a_second_member_gets_partitions_only_after_the_first_gave_them_up(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    second = world.beat("b", 0, topics=["t"])
    assert (second.member_epoch, owned(second)) == (2, [])
    assert world.group().state == "Reconciling"

    revoking = world.beat("a", 1)
    assert revoking.member_epoch == 1, "it stays in its epoch until it has given up"
    kept = owned(revoking)
    assert kept is not None
    assert len(kept) == 2
    assert owned(world.beat("b", 2)) is None

    assert world.beat("a", 1, owned={"t": kept}).member_epoch == 2
    gained = owned(world.beat("b", 2))
    assert gained is not None
    assert sorted(kept + gained) == [0, 1, 2, 3]
    assert world.group().state == "Stable"


def test_a_member_that_leaves_gives_its_partitions_to_the_others(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    world.beat("b", 0, topics=["t"])
    assert world.beat("a", -1).member_epoch == -1
    assert owned(world.beat("b", 2)) == [0, 1, 2, 3]


def test_a_member_not_heard_of_is_fenced(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    world.advance(44_999)
    assert world.beat("a", 1).error_code == ErrorCode.NONE
    world.advance(45_000)
    assert world.group().state == "Empty"
    assert world.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_partitions_up_in_time_is_fenced(world: World) -> None:
    world.beat("a", 0, topics=["t"], rebalance_ms=20_000)
    world.beat("b", 0, topics=["t"])
    world.beat("a", 1)
    for _ in range(4):
        world.beat("a", 1, owned={"t": [0, 1, 2, 3]})
        world.advance(5_000)
    assert list(world.group().members) == ["b"]
    assert owned(world.beat("b", 2)) == [0, 1, 2, 3]


def test_epochs_that_are_not_the_members_are_fenced_but_a_lost_answer_is_forgiven(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    world.beat("a", 1, topics=["t", "u"])
    assert world.group().members["a"].epoch == 2
    assert world.beat("a", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("a", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("a", 1, owned={"t": [0]}).member_epoch == 2


def test_a_member_may_join_again_under_its_id(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    again = world.beat("a", 0, topics=["t"])
    assert (again.member_epoch, owned(again)) == (1, [0, 1, 2, 3])


def test_new_partitions_and_topics_reach_the_members_with_their_heartbeats(world: World) -> None:
    world.beat("a", 0, topics=["t", "later"])
    world.make_topic("t", 6)
    assert owned(world.beat("a", 1)) == [0, 1, 2, 3, 4, 5]
    world.make_topic("later", 1)
    answer = world.beat("a", 2)
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 2
    del world.topics["later"]
    world.groups.topic_deleted("later")
    assert owned(world.beat("a", 3)) == [0, 1, 2, 3, 4, 5]


def test_a_group_with_a_longer_session_keeps_its_members_longer(world: World) -> None:
    world.configs["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    assert world.beat("a", 0, topics=["t"]).heartbeat_interval_ms == 7_000
    world.advance(49_999)
    assert world.group().state == "Stable"
    world.advance(1)
    assert world.group().state == "Empty"


def test_a_static_member_that_is_away_keeps_its_partitions_for_a_session_timeout(world: World) -> None:
    world.beat("a", 0, topics=["t"], instance="one")
    world.beat("b", 0, topics=["t"])
    world.beat("a", 1, instance="one")
    world.beat("a", 1, instance="one", owned={"t": [0, 1]})
    world.beat("b", 2)
    before = world.group().members["a"].assigned
    assert world.beat("a", -2, instance="one").member_epoch == -2
    back = world.beat("a2", 0, topics=["t"], instance="one")
    assert (back.error_code, back.member_epoch) == (ErrorCode.NONE, 2)
    assert world.group().members["a2"].assigned == before
    assert world.group().epoch == 2, "nothing changed for the group"
    assert world.beat("a", 2, instance="one").error_code == ErrorCode.FENCED_INSTANCE_ID

    world.beat("a2", -2, instance="one")
    for _ in range(9):
        world.advance(5_000)
        world.beat("b", world.group().members["b"].epoch)
    assert list(world.group().members) == ["b"]


def test_an_instance_id_in_use_is_not_given_away(world: World) -> None:
    world.beat("a", 0, topics=["t"], instance="one")
    assert world.beat("b", 0, topics=["t"], instance="one").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.beat("b", 1, instance="two").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_regular_expression_subscribes_to_what_matches_now_and_later(world: World) -> None:
    world.make_topic("__internal", 1)
    assert owned(world.beat("a", 0, regex="t.*|__internal")) == [0, 1, 2, 3]
    world.make_topic("t2", 2)
    answer = world.beat("a", 1)
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 2
    assert world.group().is_subscribed_to("t2")
    world.beat("a", 2, regex="", topics=["t"])
    assert not world.group().is_subscribed_to("t2")


@pytest.mark.parametrize(
    "regex", ["(", "(a+)+b", "(?=a)b", r"(a)\1", "a*b*c*d*e*f*", "a" * 2000, "((a|b)*c)*"]
)
def test_regular_expressions_that_are_wrong_or_could_take_forever_are_refused(
    world: World, regex: str
) -> None:
    assert world.beat("a", 0, regex=regex).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.group() is None


@pytest.mark.parametrize(
    ("member_id", "epoch", "options", "code"),
    [
        ("a", 0, {"topics": ["t"], "group": ""}, ErrorCode.INVALID_REQUEST),
        ("", 0, {"topics": ["t"]}, ErrorCode.INVALID_REQUEST),
        ("a", -3, {}, ErrorCode.INVALID_REQUEST),
        ("a", 0, {}, ErrorCode.INVALID_REQUEST),
        ("a", 0, {"topics": ["t"], "rebalance_ms": -1}, ErrorCode.INVALID_REQUEST),
        ("a", 0, {"topics": ["t"], "owned": {"t": [0]}}, ErrorCode.INVALID_REQUEST),
        ("a", 0, {"topics": ["t"], "instance": ""}, ErrorCode.INVALID_REQUEST),
        ("a", -2, {}, ErrorCode.INVALID_REQUEST),
        ("a", 0, {"topics": ["t"], "assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ("a", 1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("a", -1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_heartbeats_that_are_refused(
    world: World, member_id: str, epoch: int, options: dict[str, object], code: ErrorCode
) -> None:
    answer = world.beat(member_id, epoch, **options)  # type: ignore[arg-type]
    assert (answer.error_code, bool(answer.error_message)) == (code, True)


def test_a_full_group_refuses_new_members_only(world: World) -> None:
    world.settings = replace(world.settings, group_size_max=1)
    world.restart()
    world.beat("a", 0, topics=["t"])
    assert world.beat("b", 0, topics=["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("a", 1).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("asked_for", "loads"),
    [
        ([None, None, None], [2, 3, 3]),
        (["range", None, None], [2, 2, 4]),
        (["range", "uniform", "uniform"], [2, 3, 3]),
        (["range", "range", "uniform"], [2, 2, 4]),
    ],
    ids=["none", "one", "most for uniform", "most for range"],
)
def test_the_assignor_most_members_ask_for_is_taken(
    world: World, asked_for: list[str | None], loads: list[int]
) -> None:
    world.make_topic("u", 4)
    for member, assignor in zip("abc", asked_for, strict=True):
        world.beat(member, 0, topics=["t", "u"], assignor=assignor)
    targets = world.group().target.values()
    assert sorted(sum(map(len, target.values())) for target in targets) == loads


def test_members_commit_in_their_epoch_only(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    assert world.commit(1, "a", 1) == ErrorCode.NONE
    assert world.commit(2, "a", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit(2, "a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit(2, "a", 2, producer=Producer(1, 0)) == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(2, "b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(2, "a", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert world.commit(2) == ErrorCode.UNKNOWN_MEMBER_ID
    world.beat("a", -1)
    assert world.commit(3) == ErrorCode.NONE


def test_a_member_may_commit_in_an_older_epoch_what_it_has_owned_since(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    world.make_topic("t", 5)
    assert world.beat("a", 1).member_epoch == 2
    world.restart()
    assert world.commit(1, "a", 1, partition=0) == ErrorCode.NONE
    assert world.commit(1, "a", 1, partition=4) == ErrorCode.STALE_MEMBER_EPOCH
    assert world.commit(1, "a", 2, partition=4) == ErrorCode.NONE


def test_a_group_survives_a_restart_with_epochs_and_assignments(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    world.beat("b", 0, topics=["t"])
    world.restart()
    assert world.group().state == "Reconciling"
    assert world.beat("a", 1, owned={"t": [0, 1, 2, 3]}).member_epoch == 1
    world.advance(45_000)
    assert world.group().state == "Empty", "sessions run after a restart, too"


def test_an_empty_classic_group_becomes_a_consumer_group_and_back_with_its_offsets(world: World) -> None:
    (member,) = world.stable_group(None)
    world.commit(7, member, 1)
    refused = world.beat("a", 0, topics=["t"])
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.leave(member)
    assert world.beat("a", 0, topics=["t"]).error_code == ErrorCode.NONE
    assert world.send_join().join.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.committed() == 7
    world.beat("a", -1)
    assert world.new_member().join.generation_id == 1
    assert world.committed() == 7


def test_an_empty_group_is_deleted_or_expires(world: World) -> None:
    world.beat("a", 0, topics=["t"])
    assert world.delete() == ErrorCode.NON_EMPTY_GROUP
    world.beat("a", -1)
    assert world.delete() == ErrorCode.NONE
    assert world.group() is None
    world.beat("a", 0, topics=["t"])
    world.beat("a", -1)
    world.advance(600_000)
    assert world.group() is None
