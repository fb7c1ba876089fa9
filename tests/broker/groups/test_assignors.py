"""Server-side assignors: every partition has one owner who asked for its topic, and the load is even."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.groups.assignors import ASSIGNORS, Subscriber, assign_range, assign_uniform
from oncestream.broker.groups.consumer_group import Assignment

TOPICS = [bytes([i]) * 16 for i in range(4)]
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
SUBSCRIPTIONS = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from(TOPICS)), min_size=1)


def subscribers(
    subscriptions: dict[str, frozenset[bytes]], current: dict[str, Assignment] | None = None
) -> list[Subscriber]:
    return [
        Subscriber(member, None, topics, (current or {}).get(member, {}))
        for member, topics in subscriptions.items()
    ]


def places(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, index) for topic, indexes in assignment.items() for index in indexes}


@given(st.sampled_from(sorted(ASSIGNORS)), SUBSCRIPTIONS, PARTITIONS)
def test_every_partition_somebody_wants_has_exactly_one_owner_who_wants_it(
    name: str, subscriptions: dict[str, frozenset[bytes]], partitions: dict[bytes, int]
) -> None:
    made = ASSIGNORS[name](subscribers(subscriptions), partitions)
    owned = [place for assignment in made.values() for place in places(assignment)]
    wanted = frozenset().union(*subscriptions.values())
    assert len(owned) == len(set(owned))
    assert set(owned) == {(t, i) for t, count in partitions.items() if t in wanted for i in range(count)}
    assert all(made[member].keys() <= topics for member, topics in subscriptions.items())


@given(st.integers(1, 6), PARTITIONS)
def test_uniform_gives_members_with_the_same_subscription_the_same_load(
    members: int, partitions: dict[bytes, int]
) -> None:
    subscriptions = {f"m{i}": frozenset(TOPICS) for i in range(members)}
    loads = [len(places(a)) for a in assign_uniform(subscribers(subscriptions), partitions).values()]
    assert max(loads) - min(loads) <= 1


@given(SUBSCRIPTIONS, PARTITIONS)
def test_uniform_cannot_be_evened_out_by_moving_one_partition(
    subscriptions: dict[str, frozenset[bytes]], partitions: dict[bytes, int]
) -> None:
    made = assign_uniform(subscribers(subscriptions), partitions)
    loads = {member: len(places(assignment)) for member, assignment in made.items()}
    for member, assignment in made.items():
        for topic in assignment:
            takers = [other for other, topics in subscriptions.items() if topic in topics]
            assert all(loads[member] - loads[other] <= 1 for other in takers)


@given(SUBSCRIPTIONS, PARTITIONS)
def test_uniform_leaves_everything_in_its_place_when_nothing_changed(
    subscriptions: dict[str, frozenset[bytes]], partitions: dict[bytes, int]
) -> None:
    made = assign_uniform(subscribers(subscriptions), partitions)
    assert assign_uniform(subscribers(subscriptions, made), partitions) == made


@given(st.integers(1, 5), PARTITIONS)
def test_uniform_moves_to_a_new_member_only_what_it_needs(members: int, partitions: dict[bytes, int]) -> None:
    subscriptions = {f"m{i}": frozenset(TOPICS) for i in range(members)}
    before = assign_uniform(subscribers(subscriptions), partitions)
    after = assign_uniform(subscribers(subscriptions | {"new": frozenset(TOPICS)}, before), partitions)
    assert all(places(after[member]) <= places(before[member]) for member in subscriptions)
    assert len(places(after["new"])) == sum(partitions.values()) // (members + 1)


@given(st.integers(1, 6), st.integers(1, 9))
def test_range_gives_runs_and_the_same_run_in_topics_of_the_same_size(members: int, count: int) -> None:
    subscriptions = {f"m{i}": frozenset(TOPICS) for i in range(members)}
    for assignment in assign_range(subscribers(subscriptions), dict.fromkeys(TOPICS, count)).values():
        runs = set(assignment.values())
        assert len(runs) <= 1
        assert all(max(run) - min(run) == len(run) - 1 for run in runs)


def test_range_keeps_static_members_where_they_are_when_they_come_back_under_another_id() -> None:
    topics = frozenset(TOPICS)
    before = [Subscriber("x", "one", topics, {}), Subscriber("a", None, topics, {})]
    after = [Subscriber("b", "one", topics, {}), Subscriber("a", None, topics, {})]
    partitions = {TOPICS[0]: 4}
    assert assign_range(before, partitions)["x"] == assign_range(after, partitions)["b"]
