"""What is stored of a stream, and two people who change one at the same time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from oncestream.client.cluster import Cluster
from oncestream.errors import DescriptorUnreadable, StreamChanged, TooManyStreams
from oncestream.streams import descriptor_log
from oncestream.streams.attributes import StreamAttributes
from oncestream.streams.descriptor import Descriptor, State, decode
from oncestream.streams.descriptor_log import erase_descriptor, read_snapshot, write_descriptor
from oncestream.streams.names import StreamPath
from tests.streams.kit import new_path
from tests.streams.test_attributes import ATTRIBUTES


def a_descriptor(path: str = "/apps/pump", attributes: StreamAttributes | None = None) -> Descriptor:
    return Descriptor(
        path=StreamPath(path),
        attributes=attributes or StreamAttributes(),
        state=State.READY,
        revision=3,
        owner="alice",
        created_ms=1,
        edited_ms=2,
    )


@given(ATTRIBUTES)
def test_it_comes_back_as_it_was_stored(attributes: StreamAttributes) -> None:
    stored = a_descriptor(attributes=attributes)
    assert decode(stored.path, stored.encode()) == stored


def test_it_tells_a_broker_how_to_make_a_topic_in_kafkas_words() -> None:
    told = json.loads(a_descriptor(attributes=StreamAttributes(ttl_s=60, default_partitions=4)).encode())
    assert told["auto_create"] is True
    assert told["default_partitions"] == 4
    assert told["topic_configs"]["retention.ms"] == "60000"


@pytest.mark.parametrize("state", [State.CREATING, State.DELETING])
def test_a_stream_half_made_or_half_deleted_makes_no_topics(state: State) -> None:
    assert json.loads(replace(a_descriptor(), state=state).encode())["auto_create"] is False


@pytest.mark.parametrize(
    "value",
    [b"", b"no json", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "attributes": {"x": 1}}', b"\xff"],
)
def test_what_is_no_descriptor_of_this_version_is_refused(value: bytes) -> None:
    with pytest.raises(DescriptorUnreadable, match="/apps/pump"):
        decode(StreamPath("/apps/pump"), value)


def test_the_newest_record_of_a_stream_counts_until_it_is_erased(cluster: Cluster) -> None:
    first = a_descriptor(new_path())
    known = write_descriptor(cluster, first, read_snapshot(cluster))
    second = first.changed(State.READY, StreamAttributes(ttl_s=5), 7)
    known = write_descriptor(cluster, second, known)
    assert known.find(first.path) == read_snapshot(cluster).find(first.path) == second
    erase_descriptor(cluster, first.path, known)
    assert read_snapshot(cluster).find(first.path) is None


def test_a_topic_that_somebody_else_has_filled_is_not_read_for_ever(cluster: Cluster) -> None:
    write_descriptor(cluster, a_descriptor(new_path()), read_snapshot(cluster))
    with pytest.raises(TooManyStreams, match=descriptor_log.TOPIC):
        read_snapshot(cluster, records_max=0)


def test_who_writes_over_a_change_that_he_has_not_seen_is_told_and_the_change_stays(cluster: Cluster) -> None:
    old = a_descriptor(new_path())
    other = a_descriptor(new_path())
    seen = write_descriptor(cluster, old, read_snapshot(cluster))
    write_descriptor(cluster, other, seen)
    mine = old.changed(State.READY, StreamAttributes(ttl_s=1), 1)
    theirs = old.changed(State.READY, StreamAttributes(ttl_s=2), 1)
    write_descriptor(cluster, theirs, seen)
    with pytest.raises(StreamChanged, match=old.path.text):
        write_descriptor(cluster, mine, seen)
    assert read_snapshot(cluster).find(old.path) == theirs
    again = theirs.changed(State.READY, StreamAttributes(ttl_s=3), 1)
    known = write_descriptor(cluster, theirs, read_snapshot(cluster))
    assert write_descriptor(cluster, again, known).find(old.path) == again


def test_whoever_erases_a_stream_that_was_changed_meanwhile_is_told(cluster: Cluster) -> None:
    old = a_descriptor(new_path())
    seen = write_descriptor(cluster, old, read_snapshot(cluster))
    changed = old.changed(State.READY, StreamAttributes(ttl_s=1), 1)
    write_descriptor(cluster, changed, seen)
    with pytest.raises(StreamChanged):
        erase_descriptor(cluster, old.path, seen)
    assert read_snapshot(cluster).find(old.path) == changed
