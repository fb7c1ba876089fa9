"""Streams made, changed, listed, purged and deleted, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.configs import alter_topic_configs
from oncestream.errors import (
    BadStreamAttribute,
    NoSuchStream,
    PermissionsOff,
    RequestRefused,
    StreamChanged,
    StreamExists,
    StreamHasTopics,
)
from oncestream.streams.attributes import AttributeNames, StreamAttributes
from oncestream.streams.descriptor import State
from oncestream.streams.descriptor_log import read_snapshot
from oncestream.streams.names import StreamPath
from oncestream.streams.stream import Stream, list_streams
from oncestream.streams.topics import TopicInfo
from oncestream.testing.proxy import FaultProxy
from tests.streams.conftest import MakeStream
from tests.streams.kit import TIMEOUT_S, consume, new_path, produce, soon


class HalfWay(Exception):
    """The process that did it is gone."""


def topic_soon(stream: Stream, name: str, **configs: str) -> TopicInfo:
    """The topic once it has these configurations."""
    wanted = {key.replace("_", "."): value for key, value in configs.items()}
    return soon(lambda: stream.topic_info(name), lambda info: wanted.items() <= info.configs.items())


def topics_soon(stream: Stream, names: list[str]) -> None:
    soon(stream.topics, lambda found: found == names)


def test_a_stream_has_what_it_was_made_with_and_defaults(bootstrap: str) -> None:
    stream = Stream(new_path(), bootstrap)
    made = stream.create(ttl_s=60, default_partitions=3)
    assert made == stream.info()
    everyone = dict.fromkeys(("produce", "consume", "topic", "copy", "admin"), "p")
    assert made.attributes == StreamAttributes(ttl_s=60, default_partitions=3, **everyone)  # type: ignore[arg-type]
    assert (made.path, made.owner, made.revision, made.topics) == (stream.path.text, "", 1, ())


def test_a_stream_can_be_made_like_another_one(make: MakeStream) -> None:
    model = make(ttl_s=60, default_partitions=3, compression="zstd")
    copy = make(like=model.path.text, default_partitions=5)
    assert copy.info().attributes == model.info().attributes.replaced({"default_partitions": 5})


def test_a_stream_cannot_be_like_one_that_is_not_there(make: MakeStream) -> None:
    with pytest.raises(NoSuchStream, match="/tests/ghost"):
        make(like="/tests/ghost")


def test_a_stream_is_made_once_and_is_a_leaf(make: MakeStream, bootstrap: str) -> None:
    path = new_path()
    make(path)
    for taken in (path, f"{path}/deeper", path.rpartition("/")[0]):
        with pytest.raises(StreamExists, match=taken):
            make(taken)
    make(f"{path}-beside")


def test_nothing_is_done_to_a_stream_that_is_not_there(bootstrap: str) -> None:
    ghost = Stream(new_path(), bootstrap)
    for act in (
        ghost.info,
        ghost.edit,
        ghost.delete,
        ghost.purge,
        ghost.topics,
        lambda: ghost.create_topic("x"),
    ):
        with pytest.raises(NoSuchStream, match=ghost.path.text):
            act()


def test_topics_get_the_attributes_and_follow_later_changes(make: MakeStream) -> None:
    stream = make(ttl_s=3600, default_partitions=2, compression="gzip", timestamp_type="append")
    stream.create_topic("warning")
    stream.create_topic("alarm", partitions=5)
    made = topic_soon(stream, "warning", retention_ms="3600000")
    assert made.configs["compression.type"] == "gzip"
    assert made.configs["message.timestamp.type"] == "LogAppendTime"
    assert len(made.partitions) == 2
    assert len(stream.topic_info("alarm").partitions) == 5
    steps: list[tuple[int, int]] = []
    stream.edit(ttl_s=0, compression="none", compact=True, on_progress=lambda *step: steps.append(step))
    assert steps == [(2, 2)]
    for name in ("warning", "alarm"):
        followed = topic_soon(
            stream, name, retention_ms="-1", compression_type="uncompressed", cleanup_policy="compact"
        )
        assert "segment.ms" not in followed.configs
        assert followed.strays == {}


def test_a_topic_that_was_changed_by_hand_is_seen_and_set_right(make: MakeStream, cluster: Cluster) -> None:
    stream = make(ttl_s=3600)
    stream.create_topic("warning")
    alter_topic_configs(
        cluster, {stream.path.topic("warning"): {"retention.ms": "1", "max.message.bytes": "9999"}}
    )
    assert topic_soon(stream, "warning", retention_ms="1").strays == {"retention.ms": "1"}
    stream.edit()
    assert topic_soon(stream, "warning", retention_ms="3600000").configs["max.message.bytes"] == "9999"


def test_streams_are_listed_by_path(make: MakeStream, cluster: Cluster) -> None:
    root = new_path("listed")
    paths = [f"{root}/a", f"{root}/b/c", f"{root}-beside"]
    for path in paths:
        make(path)
    assert [info.path for info in list_streams(cluster, root)] == paths[:2]
    assert [info.path for info in list_streams(cluster, f"{root}/a")] == paths[:1]
    assert {info.path for info in list_streams(cluster)} >= set(paths)


def test_a_deleted_stream_is_gone_with_its_topics_and_a_dry_run_only_tells(
    make: MakeStream, cluster: Cluster
) -> None:
    stream = make()
    stream.create_topic("warning")
    topics_soon(stream, ["warning"])
    assert stream.delete(dry_run=True).topics == ("warning",)
    assert stream.topics() == ["warning"]
    assert stream.delete().topics == ("warning",)
    with pytest.raises(NoSuchStream):
        stream.info()
    soon(lambda: cluster.topics_matching(stream.path.prefix + ".*"), lambda names: not names)
    make(stream.path.text)


def test_topics_of_no_stream_are_taken_in_only_where_that_is_asked_for(
    bootstrap: str, cluster: Cluster
) -> None:
    stream = Stream(new_path(), bootstrap)
    create_topics(cluster, [NewTopic(stream.path.topic("old"), 1)])
    with pytest.raises(StreamHasTopics, match="old"):
        stream.create(ttl_s=60)
    stream.create(ttl_s=60, adopt=True)
    assert topic_soon(stream, "old", retention_ms="60000").strays == {}


def test_a_creation_that_broke_off_is_not_seen_and_is_finished_by_the_next(
    bootstrap: str, cluster: Cluster
) -> None:
    stream = Stream(new_path(), bootstrap)
    create_topics(cluster, [NewTopic(stream.path.topic("old"), 1)])
    with pytest.raises(HalfWay):
        stream.create(ttl_s=60, adopt=True, on_progress=_break_off)
    with pytest.raises(NoSuchStream):
        stream.info()
    assert stream.create(ttl_s=70, adopt=True).attributes.ttl_s == 70


def test_a_change_that_broke_off_is_finished_by_the_same_call_again(make: MakeStream, bootstrap: str) -> None:
    stream = make(ttl_s=60)
    stream.create_topic("warning")
    with FaultProxy(bootstrap) as proxy:
        proxy.fail_next("IncrementalAlterConfigs", "POLICY_VIOLATION")
        with pytest.raises(RequestRefused, match="POLICY_VIOLATION"):
            Stream(stream.path.text, proxy.bootstrap_servers).edit(ttl_s=70)
    assert stream.topic_info("warning").strays == {"retention.ms": "60000", "segment.ms": "6000"}
    stream.edit(ttl_s=70)
    assert topic_soon(stream, "warning", retention_ms="70000").strays == {}


def test_a_deletion_that_broke_off_is_finished_by_the_next(make: MakeStream, cluster: Cluster) -> None:
    stream = make()
    stream.create_topic("warning")
    topics_soon(stream, ["warning"])
    with pytest.raises(HalfWay):
        stream.delete(on_progress=_break_off)
    assert read_snapshot(cluster).find(stream.path).state is State.DELETING  # type: ignore[union-attr]
    with pytest.raises(StreamExists, match="delete it again"):
        stream.create()
    stream.delete()
    assert read_snapshot(cluster).find(stream.path) is None


def test_of_two_who_change_a_stream_at_once_none_undoes_the_others_change(make: MakeStream) -> None:
    stream = make(ttl_s=100, default_partitions=1)

    def insist(change: AttributeNames) -> None:
        while True:
            with suppress(StreamChanged):
                stream.edit(**change)
                return

    with ThreadPoolExecutor(2) as pool:
        for number in range(2, 12):
            list(pool.map(insist, ({"ttl_s": number}, {"default_partitions": number}), timeout=TIMEOUT_S))
            now = stream.info().attributes
            assert (now.ttl_s, now.default_partitions) == (number, number)


def test_more_copies_than_the_cluster_can_make_are_refused_at_once(bootstrap: str) -> None:
    stream = Stream(new_path(), bootstrap)
    with pytest.raises(BadStreamAttribute, match="replicas"):
        stream.create(replicas=3)
    stream.create(replicas=1)
    stream.create_topic("warning")
    with pytest.raises(BadStreamAttribute, match="replicas"):
        stream.edit(replicas=2)


def test_permissions_are_refused_where_nobody_checks_them(make: MakeStream) -> None:
    with pytest.raises(PermissionsOff, match="authorization"):
        make(produce="u:alice")
    stream = make(produce="p")
    with pytest.raises(PermissionsOff, match="consume"):
        stream.edit(consume="u:bob")


def test_a_purge_removes_what_has_expired_or_everything(make: MakeStream, bootstrap: str) -> None:
    stream = make(ttl_s=3600)
    stream.create_topic("warning")
    topic = stream.path.topic("warning")
    produce(bootstrap, topic, ["a", "b"], timestamp_ms=int(time.time() * 1000) - 1000)
    assert stream.purge() == []
    assert [(each.topic, each.first, each.until) for each in stream.purge(everything=True, dry_run=True)] == [
        ("warning", 0, 2)
    ]
    stream.purge(everything=True)
    assert stream.topic_info("warning").partitions[0].earliest == 2
    assert stream.purge(everything=True) == []


def test_a_purge_spares_what_is_young(make: MakeStream, bootstrap: str) -> None:
    stream = make(ttl_s=0)
    stream.create_topic("warning")
    topic = stream.path.topic("warning")
    hours_ago = int(time.time() * 1000) - 2 * 3_600_000
    produce(bootstrap, topic, ["old", "older"], timestamp_ms=hours_ago)
    produce(bootstrap, topic, ["young"])
    assert stream.purge() == []
    stream.edit(ttl_s=3600)
    stream.purge()
    assert stream.topic_info("warning").partitions[0].earliest == 2
    assert consume(bootstrap, topic, new_path("g")[1:].replace("/", "."), 1) == ["young"]


def test_a_change_that_cannot_be_changes_nothing(make: MakeStream) -> None:
    stream = make(ttl_s=60)
    for bad in ({"ttl_s": -1}, {"compression": "brotli"}, {"replicas": 99}):
        with pytest.raises(BadStreamAttribute, match=f"attribute {next(iter(bad))} "):
            stream.edit(**bad)
    assert stream.info().attributes.ttl_s == 60
    assert stream.info().revision == 1


def _break_off(done: int, count: int) -> None:
    raise HalfWay


def test_a_stream_says_what_it_is() -> None:
    assert repr(Stream("/apps/pump", "localhost:9092")) == "Stream('/apps/pump', 'localhost:9092')"
    assert StreamPath("/apps/pump") < StreamPath("/apps/tank")
