"""Server-side assignors of the consumer protocol: which member is to own which partitions.

`range` gives every member a run of neighbouring partitions, the same run in topics of the same size.
`uniform` spreads all partitions evenly and moves as few as it can.
Differs from Apache Kafka: racks are not looked at, and `uniform` may break ties in another way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from oncestream.broker.groups.consumer_group import Assignment, Place


class Subscriber(NamedTuple):
    """A member as an assignor sees it."""

    id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    current: Assignment


Assignor = Callable[[Sequence[Subscriber], Mapping[bytes, int]], dict[str, Assignment]]


def assign_range(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    made: dict[str, dict[bytes, frozenset[int]]] = {member.id: {} for member in members}
    # Static members come first and by their instance ids, so that a restart changes nothing.
    ordered = sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.id))
    for topic_id, count in partitions.items():
        takers = [member for member in ordered if topic_id in member.topic_ids]
        start = 0
        for i, member in enumerate(takers):
            size = count // len(takers) + (i < count % len(takers))
            if size:
                made[member.id][topic_id] = frozenset(range(start, start + size))
            start += size
    return dict(made)


def assign_uniform(members: Sequence[Subscriber], partitions: Mapping[bytes, int]) -> dict[str, Assignment]:
    ordered = sorted(members, key=lambda m: m.id)
    owned: dict[str, list[Place]] = {member.id: [] for member in ordered}
    free = {(topic_id, index): None for topic_id, count in partitions.items() for index in range(count)}
    for member in ordered:
        for topic_id, indexes in member.current.items():
            for place in sorted((topic_id, index) for index in indexes):
                if topic_id in member.topic_ids and place in free:
                    del free[place]
                    owned[member.id].append(place)
    takers = {t: [m.id for m in ordered if t in m.topic_ids] for t in partitions}
    # Partitions that few can take are placed first: those that many can take fill the gaps.
    for place in sorted(free, key=lambda place: len(takers[place[0]])):
        if takers[place[0]]:
            min((owned[member_id] for member_id in takers[place[0]]), key=len).append(place)
    _level(owned, takers)
    return {member_id: _grouped(places) for member_id, places in owned.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNOR: Final = "uniform"


def _level(owned: dict[str, list[Place]], takers: Mapping[bytes, list[str]]) -> None:
    """Moves one partition at a time, from who has most, until no move makes it more even."""
    while _move_one(owned, takers):
        pass


def _move_one(owned: dict[str, list[Place]], takers: Mapping[bytes, list[str]]) -> bool:
    fewest = min((len(places) for places in owned.values()), default=0)
    for places in sorted(owned.values(), key=len, reverse=True):
        if len(places) - fewest <= 1:
            return False
        last_of_topic = {topic_id: i for i, (topic_id, _) in enumerate(places)}
        for topic_id, i in last_of_topic.items():
            least = min((owned[member_id] for member_id in takers[topic_id]), key=len)
            if len(places) - len(least) > 1:
                least.append(places.pop(i))
                return True
    return False


def _grouped(places: Sequence[Place]) -> Assignment:
    made: dict[bytes, set[int]] = defaultdict(set)
    for topic_id, index in places:
        made[topic_id].add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in made.items()}
