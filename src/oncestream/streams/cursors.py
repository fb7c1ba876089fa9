"""Cursors: what consumer groups have committed in the topics of a stream; and who reads them now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.damage import OnDamage
from oncestream.client.groups import (
    CLASSIC,
    CONSUMER,
    GroupState,
    delete_offsets,
    describe_groups,
    list_groups,
)
from oncestream.client.lag import group_lags
from oncestream.client.offsets import (
    EARLIEST,
    LATEST,
    Committed,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadCursor, UnknownGroup, UnknownTopic
from oncestream.streams.names import StreamPath
from oncestream.streams.topics import kafka_topics_of

ENDS: Final = {"earliest": EARLIEST, "latest": LATEST}


class Cursor(NamedTuple):
    """`lag` counts records up to `end`, the last stable offset: see `PartitionLag`."""

    group: str
    topic: str
    partition: int
    offset: int
    end: int
    lag: int
    exact: bool
    seconds: float | None
    metadata: str


class CursorMove(NamedTuple):
    """`before` is None where the group had no cursor there."""

    group: str
    topic: str
    partition: int
    before: int | None
    after: int


class Assignment(NamedTuple):
    group: str
    topic: str
    partition: int
    member_id: str
    client_id: str
    host: str


class Which(NamedTuple):
    """Cursors are chosen by group, topic and partition; what is not said matches all."""

    group: str | None = None
    topic: str | None = None
    partition: int | None = None

    def covers(self, path: StreamPath, at: TopicPartition) -> bool:
        name = path.topic_name(at.topic)
        return name is not None and self.topic in (None, name) and self.partition in (None, at.partition)


def cursors_of(
    cluster: Cluster, path: StreamPath, which: Which, on_damage: OnDamage | None = None
) -> list[Cursor]:
    """Sorted by group, topic and partition. `on_damage`: see `group_lags`."""
    found: list[Cursor] = []
    for group in _groups(cluster, which):
        if not any(which.covers(path, at) for at in committed_offsets(cluster, group, stable=False)):
            continue
        found += [
            Cursor(
                group,
                path.topic_name(at.topic) or "",
                at.partition,
                lag.committed,
                lag.end,
                lag.records,
                lag.exact,
                lag.seconds,
                lag.metadata,
            )
            for at, lag in group_lags(cluster, group, on_damage=on_damage).items()
            if which.covers(path, at)
        ]
    return sorted(found)


def forget_cursors(cluster: Cluster, path: StreamPath, cursors: Iterable[Cursor]) -> None:
    """GroupInUse where a live member of the group reads that topic."""
    by_group: dict[str, list[TopicPartition]] = {}
    for cursor in cursors:
        at = TopicPartition(path.topic(cursor.topic), cursor.partition)
        by_group.setdefault(cursor.group, []).append(at)
    for group, where in by_group.items():
        delete_offsets(cluster, group, where)


def planned_moves(
    cluster: Cluster, path: StreamPath, group: str, to: str | int | datetime, which: Which
) -> list[CursorMove]:
    """Where a reset would put the cursors of a group.

    Where no topic is named, of the topics that it has cursors in; of all, where it has none.
    """
    committed = committed_offsets(cluster, group)
    topics = {at.topic for at in committed if path.topic_name(at.topic) is not None}
    where = [
        at
        for topic, count in kafka_topics_of(cluster, path).items()
        for at in (TopicPartition(topic, number) for number in range(count))
        if which.covers(path, at) and (which.topic is not None or not topics or topic in topics)
    ]
    if not where and (which.topic, which.partition) != (None, None):
        raise UnknownTopic(topic=f"{path}:{which.topic or '*'}, partition {which.partition or 'any'}")
    places = _places(cluster, where, to)
    return [
        CursorMove(
            group,
            path.topic_name(at.topic) or "",
            at.partition,
            committed[at].offset if at in committed else None,
            places[at],
        )
        for at in where
    ]


def move_cursors(cluster: Cluster, path: StreamPath, moves: Iterable[CursorMove]) -> None:
    """GroupInUse where the group has live members."""
    by_group: dict[str, dict[TopicPartition, Committed]] = {}
    for move in moves:
        at = TopicPartition(path.topic(move.topic), move.partition)
        by_group.setdefault(move.group, {})[at] = Committed(move.after)
    for group, offsets in by_group.items():
        commit_offsets(cluster, group, offsets)


def assignments_of(cluster: Cluster, path: StreamPath, which: Which) -> list[Assignment]:
    """Who reads what of the stream now, by its subscription."""
    return sorted(
        Assignment(
            state.group,
            path.topic_name(at.topic) or "",
            at.partition,
            member.member_id,
            member.client_id,
            member.host,
        )
        for state in _states(cluster, _groups(cluster, which))
        for member in state.members
        for at in member.assignment
        if which.covers(path, at)
    )


def _states(cluster: Cluster, groups: Iterable[str]) -> Iterator[GroupState]:
    for group in groups:
        # One that was listed may be gone by now.
        with suppress(UnknownGroup):
            yield from describe_groups(cluster, [group])


def _groups(cluster: Cluster, which: Which) -> list[str]:
    if which.group is not None:
        return [which.group]
    return [each.group for each in list_groups(cluster) if each.kind in (CLASSIC, CONSUMER)]


def _places(
    cluster: Cluster, where: list[TopicPartition], to: str | int | datetime
) -> dict[TopicPartition, int]:
    """The offsets to go to, never outside of the logs."""
    first = list_offsets(cluster, dict.fromkeys(where, EARLIEST))
    last = list_offsets(cluster, dict.fromkeys(where, LATEST))
    wanted: dict[TopicPartition, int | None]
    if isinstance(to, datetime):
        wanted = list_offsets(cluster, dict.fromkeys(where, int(to.timestamp() * 1000)))
    elif isinstance(to, int) and not isinstance(to, bool) and to >= 0:
        wanted = dict.fromkeys(where, to)
    elif to in ENDS:
        wanted = first if to == "earliest" else last
    else:
        raise BadCursor(to=to)
    places = {}
    for at in where:
        low, high, asked = first[at] or 0, last[at] or 0, wanted[at]
        places[at] = high if asked is None else max(low, min(asked, high))
    return places
