"""Topics of streams: which there are, what one looks like, making one as its stream says, old records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncestream.client.admin import BROKER_DEFAULT, NewTopic, create_topics, describe_topics
from oncestream.client.cluster import Cluster
from oncestream.client.configs import describe_configs
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.sizes import partition_sizes
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import NoAutoCreate, NoSuchStream, NotAuthorized
from oncestream.streams.attributes import GOVERNED, StreamAttributes
from oncestream.streams.descriptor import Descriptor, State
from oncestream.streams.descriptor_log import read_snapshot
from oncestream.streams.names import StreamPath, display_name, parse_topic, split_topic


class PartitionInfo(NamedTuple):
    """`stable` is the last stable offset: what readers of committed records see ends there.

    `size_bytes` is None where the user may not see it.
    """

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int
    latest: int
    stable: int
    size_bytes: int | None


class TopicInfo(NamedTuple):
    """`configs`: what is set on the topic itself. `strays`: where it differs from its stream, what it has."""

    name: str
    kafka_topic: str
    partitions: tuple[PartitionInfo, ...]
    configs: Mapping[str, str]
    strays: Mapping[str, str]


class Expired(NamedTuple):
    """Records from `first` up to, but without, `until` are to go, or gone."""

    topic: str
    partition: int
    first: int
    until: int


def kafka_topics_of(cluster: Cluster, path: StreamPath) -> dict[str, int]:
    """The Kafka names of the stream's topics, sorted, with the number of partitions of each."""
    return {
        topic.name: len(topic.partitions)
        for topic in describe_topics(cluster)
        if path.topic_name(topic.name) is not None
    }


def ensure_topic(cluster: Cluster, topic: str) -> None:
    """Makes a topic of a stream on first use, as its stream says.

    NoAutoCreate where the stream makes none. A plain Kafka name of no stream is left to the broker.
    """
    there = {each.name for each in describe_topics(cluster)}
    if parse_topic(topic) not in there:
        create_topics(cluster, topics_to_make(cluster, [topic]), exist_ok=True)


def topics_to_make(cluster: Cluster, topics: Iterable[str]) -> list[NewTopic]:
    """Of these missing topics those that are in streams, as their streams make them."""
    wanted = list(topics)
    try:
        snapshot = read_snapshot(cluster)
    except NotAuthorized:
        # Nobody has made a stream here, or let this user see them: a plain topic need not be in one.
        if any(text.startswith("/") for text in wanted):
            raise
        return []
    found: list[NewTopic] = []
    for text in wanted:
        kafka_topic = parse_topic(text)
        place = split_topic(kafka_topic)
        stream = None if place is None else snapshot.find(place[0])
        if stream is None or stream.state is not State.READY:
            if place is not None and text.startswith("/"):
                raise NoSuchStream(path=place[0])
        elif not stream.attributes.auto_create:
            raise NoAutoCreate(topic=display_name(kafka_topic), path=stream.path)
        else:
            found.append(new_topic(kafka_topic, stream.attributes))
    return found


def new_topic(kafka_topic: str, attributes: StreamAttributes, partitions: int | None = None) -> NewTopic:
    return NewTopic(
        kafka_topic,
        attributes.default_partitions if partitions is None else partitions,
        BROKER_DEFAULT if attributes.replicas is None else attributes.replicas,
        attributes.topic_configs(),
    )


def describe(cluster: Cluster, kafka_topic: str, stream: Descriptor) -> TopicInfo:
    (state,) = describe_topics(cluster, [kafka_topic])
    where = [TopicPartition(kafka_topic, each.partition) for each in state.partitions]
    earliest = list_offsets(cluster, dict.fromkeys(where, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(where, LATEST), read_committed=False)
    stable = list_offsets(cluster, dict.fromkeys(where, LATEST))
    sizes = partition_sizes(cluster, where)
    entries = {entry.name: entry for entry in describe_configs(cluster, [kafka_topic])[kafka_topic]}
    wanted = stream.attributes.topic_configs()
    return TopicInfo(
        stream.path.topic_name(kafka_topic) or "",
        kafka_topic,
        tuple(
            PartitionInfo(
                *each,
                earliest[at] or 0,
                latest[at] or 0,
                stable[at] or 0,
                None if sizes is None else sizes.get(at, 0),
            )
            for at, each in zip(where, state.partitions, strict=True)
        ),
        {entry.name: entry.value or "" for entry in entries.values() if not entry.default},
        {
            name: entries[name].value or ""
            for name in GOVERNED
            if name in entries and _differs(entries[name].value, entries[name].default, wanted.get(name))
        },
    )


def expired(cluster: Cluster, path: StreamPath, ttl_s: int, *, everything: bool) -> list[Expired]:
    """What a purge removes: records older than the ttl, or all that no open transaction holds."""
    if not ttl_s and not everything:
        return []
    where = [
        TopicPartition(topic, number)
        for topic, count in kafka_topics_of(cluster, path).items()
        for number in range(count)
    ]
    first = list_offsets(cluster, dict.fromkeys(where, EARLIEST))
    until = list_offsets(cluster, dict.fromkeys(where, LATEST))
    if not everything:
        oldest_kept_ms = int(time.time() * 1000) - ttl_s * 1000
        young = list_offsets(cluster, dict.fromkeys(where, oldest_kept_ms))
        until |= {at: offset for at, offset in young.items() if offset is not None}
    found = [
        Expired(path.topic_name(at.topic) or "", at.partition, first[at] or 0, until[at] or 0) for at in where
    ]
    return [each for each in found if each.first < each.until]


def _differs(value: str | None, is_default: bool, wanted: str | None) -> bool:
    """A stream that leaves a configuration out wants the broker's default."""
    return not is_default if wanted is None else value != wanted
