"""Cursors of consumer groups in a stream's topics: seen, moved, forgotten; and who reads what now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import confluent_kafka
import pytest

from oncestream.errors import BadCursor, GroupInUse, NoSuchStream, UnknownTopic
from oncestream.streams.cursors import Cursor
from oncestream.streams.stream import Stream
from tests.streams.conftest import MakeStream
from tests.streams.kit import TIMEOUT_S, consume, produce, soon

GROUP = "readers"
DAY_S = 86_400


@pytest.fixture
def stream(make: MakeStream, bootstrap: str) -> Stream:
    """Topic `warning`: ten records of which group <prefix>readers has read four; topic `alarm`: nobody reads it."""
    stream = make()
    for name in ("warning", "alarm"):
        stream.create_topic(name)
        produce(bootstrap, stream.path.topic(name), map(str, range(4)), timestamp_ms=1_000_000_000_000)
    consume(bootstrap, stream.path.topic("warning"), group_of(stream), 4)
    now_ms = int(time.time() * 1000)
    produce(bootstrap, stream.path.topic("warning"), map(str, range(4, 10)), timestamp_ms=now_ms)
    return stream


@pytest.fixture
def reader(stream: Stream, bootstrap: str) -> Iterator[confluent_kafka.Consumer]:
    """A live member of the group."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group_of(stream), "client.id": "the-reader"}
    )
    consumer.subscribe([stream.path.topic("warning")])
    deadline = time.monotonic() + TIMEOUT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    yield consumer
    consumer.close()


def group_of(stream: Stream) -> str:
    return stream.path.prefix + GROUP


def places(cursors: list[Cursor]) -> list[tuple[str, str, int, int]]:
    return [(each.group, each.topic, each.partition, each.offset) for each in cursors]


def test_a_cursor_tells_where_a_group_is_and_how_far_it_lags(stream: Stream) -> None:
    (cursor,) = stream.cursors()
    assert places([cursor]) == [(group_of(stream), "warning", 0, 4)]
    assert (cursor.end, cursor.lag, cursor.exact) == (10, 6, True)
    assert cursor.seconds is not None
    assert cursor.seconds < DAY_S, "the age of the first that it has not read"
    assert stream.cursors(topic="alarm") == []
    assert stream.cursors(group="nobody") == []
    assert places(stream.cursors(group_of(stream), "warning", 0)) == places([cursor])


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("earliest", 0),
        ("latest", 10),
        (7, 7),
        (99, 10),
        (datetime(2001, 9, 9, 1, 46, 41, tzinfo=UTC), 4),
        (datetime(2100, 1, 1, tzinfo=UTC), 10),
    ],
)
def test_cursors_are_reset_and_a_dry_run_only_tells(
    stream: Stream, to: str | int | datetime, offset: int
) -> None:
    planned = stream.reset_cursors(group_of(stream), to, dry_run=True)
    assert [(move.topic, move.before, move.after) for move in planned] == [("warning", 4, offset)]
    assert places(stream.cursors()) == [(group_of(stream), "warning", 0, 4)]
    assert stream.reset_cursors(group_of(stream), to) == planned
    assert places(stream.cursors()) == [(group_of(stream), "warning", 0, offset)]


def test_a_group_gets_its_first_cursor_in_a_topic_that_is_named(stream: Stream) -> None:
    (move,) = stream.reset_cursors(group_of(stream), "latest", topic="alarm")
    assert (move.before, move.after) == (None, 4)
    assert {cursor.topic for cursor in stream.cursors()} == {"alarm", "warning"}


def test_a_group_that_has_never_been_gets_cursors_in_all_topics(stream: Stream, bootstrap: str) -> None:
    """So a reset comes first where a program is to begin elsewhere than its own default."""
    group = stream.path.prefix + "new"
    moves = stream.reset_cursors(group, "earliest")
    assert [(each.topic, each.before, each.after) for each in moves] == [
        ("alarm", None, 0),
        ("warning", None, 0),
    ]
    assert places(stream.cursors(group)) == [(group, "alarm", 0, 0), (group, "warning", 0, 0)]
    for topic, partition in (("nothing", None), ("warning", 9), (None, 9)):
        with pytest.raises(UnknownTopic, match=f"{stream.path}:{topic or ''}"):
            stream.reset_cursors(group, "earliest", topic, partition)
    with pytest.raises(NoSuchStream):
        Stream("/no/such/stream", bootstrap).reset_cursors(group, "earliest")


def test_a_place_that_no_cursor_can_have_is_refused(stream: Stream) -> None:
    for to in ("yesterday", -1, True):
        with pytest.raises(BadCursor):
            stream.reset_cursors(group_of(stream), to)


def test_cursors_are_forgotten_and_a_dry_run_only_tells(stream: Stream) -> None:
    before = stream.cursors()
    assert places(stream.delete_cursors(dry_run=True)) == places(before) == places(stream.cursors())
    assert places(stream.delete_cursors(group_of(stream))) == places(before)
    assert stream.cursors() == []


def test_the_cursor_of_a_live_group_stays_and_its_members_are_seen(
    stream: Stream, reader: confluent_kafka.Consumer
) -> None:
    found = soon(stream.assignments, bool)
    assert [(each.group, each.topic, each.partition, each.client_id) for each in found] == [
        (group_of(stream), "warning", 0, "the-reader")
    ]
    assert stream.assignments(topic="alarm") == []
    with pytest.raises(GroupInUse):
        stream.reset_cursors(group_of(stream), "earliest")
    with pytest.raises(GroupInUse):
        stream.delete_cursors(group_of(stream))
    assert places(stream.cursors()) == [(group_of(stream), "warning", 0, 4)]


def test_a_group_that_nobody_knows_has_no_assignments(stream: Stream) -> None:
    assert stream.assignments(group="nobody") == []
