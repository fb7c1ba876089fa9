"""Topics of streams: made by hand and on first use, grown, looked at, deleted."""

from __future__ import annotations

import pytest

from oncestream.client.cluster import Cluster
from oncestream.errors import BadStreamName, NoAutoCreate, NoSuchStream, RequestRefused, UnknownTopic
from oncestream.streams.topics import ensure_topic, topics_to_make
from tests.streams.conftest import MakeStream
from tests.streams.kit import new_path, produce, soon


def test_a_topic_only_grows(make: MakeStream) -> None:
    stream = make(default_partitions=2)
    stream.create_topic("warning")
    stream.edit_topic("warning", partitions=4)
    assert len(stream.topic_info("warning").partitions) == 4
    with pytest.raises(RequestRefused, match="INVALID_PARTITIONS"):
        stream.edit_topic("warning", partitions=1)


def test_a_topic_is_looked_at_and_deleted_by_its_name_in_the_stream(make: MakeStream, bootstrap: str) -> None:
    stream = make()
    stream.create_topic("warning")
    stream.create_topic("alarm")
    produce(bootstrap, stream.path.topic("warning"), ["a", "b", "c"])
    info = stream.topic_info("warning")
    assert (info.name, info.kafka_topic) == ("warning", stream.path.topic("warning"))
    (partition,) = info.partitions
    assert (partition.earliest, partition.latest, partition.stable) == (0, 3, 3)
    assert partition.leader in partition.in_sync
    assert partition.size_bytes is not None
    assert partition.size_bytes > 0
    assert stream.delete_topic("warning", dry_run=True).partitions == info.partitions
    assert stream.topics() == ["alarm", "warning"]
    stream.delete_topic("warning")
    soon(stream.topics, lambda names: names == ["alarm"])


def test_a_topic_that_is_not_there_is_not_waited_for(make: MakeStream) -> None:
    stream = make()
    for act in (stream.topic_info, stream.delete_topic, lambda name: stream.edit_topic(name, 2)):
        with pytest.raises(UnknownTopic, match=f"{stream.path}:ghost"):
            act("ghost")


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "..", "__x", "caf\u00e9", "x" * 250])
def test_a_bad_name_is_refused(make: MakeStream, name: str) -> None:
    stream = make()
    with pytest.raises(BadStreamName):
        stream.create_topic(name)


def test_a_topic_is_made_on_first_use_as_its_stream_says(make: MakeStream, cluster: Cluster) -> None:
    stream = make(ttl_s=60, default_partitions=3)
    ensure_topic(cluster, f"{stream.path}:warning")
    ensure_topic(cluster, stream.path.topic("alarm"))
    ensure_topic(cluster, stream.path.topic("alarm"))
    for name in ("warning", "alarm"):
        info = stream.topic_info(name)
        assert len(info.partitions) == 3
        assert info.configs["retention.ms"] == "60000"


def test_a_stream_without_auto_create_makes_none(make: MakeStream, cluster: Cluster) -> None:
    stream = make(auto_create=False)
    with pytest.raises(NoAutoCreate, match=f"{stream.path}:warning"):
        ensure_topic(cluster, f"{stream.path}:warning")
    stream.create_topic("warning")
    ensure_topic(cluster, f"{stream.path}:warning")


def test_a_plain_topic_is_left_to_the_broker_but_a_missing_stream_is_told(cluster: Cluster) -> None:
    path = new_path("ghost")
    assert topics_to_make(cluster, [path[1:].replace("/", ".") + ".x", "plain"]) == []
    with pytest.raises(NoSuchStream, match=path):
        ensure_topic(cluster, f"{path}:x")
