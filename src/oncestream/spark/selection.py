"""Which partitions a source reads: named topics, a pattern of names, or partitions one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from oncestream.client.cluster import Cluster
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadSourceOption, UnknownTopic
from oncestream.streams.names import is_whole_stream, parse_topic, topic_pattern


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of these topics, those added later too."""

    names: tuple[str, ...]

    @property
    def topics(self) -> set[str]:
        return set(self.names)

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        """Those chosen; UnknownTopic where a topic that was named does not come up in time."""
        return _all_of(cluster.partitions_of(self.names))

    def existing(self, cluster: Cluster) -> list[TopicPartition]:
        """Those chosen that are there now, without waiting for others."""
        return _all_of(_counts(cluster, self.names.__contains__))

    def without(self, topics: Collection[str]) -> Topics:
        return Topics(tuple(name for name in self.names if name not in topics))


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All partitions of every topic whose whole name matches, those made later too."""

    pattern: str

    @property
    def topics(self) -> set[str]:
        """None is named."""
        return set()

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        matches = re.compile(self.pattern).fullmatch
        return _all_of(_counts(cluster, lambda name: matches(name) is not None))

    existing = partitions

    def without(self, topics: Collection[str]) -> TopicPattern:  # noqa: ARG002
        """The same: a pattern waits for no topic."""
        return self


@dataclass(frozen=True, slots=True)
class Assigned:
    """Exactly these partitions."""

    chosen: tuple[TopicPartition, ...]

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in self.chosen}

    def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        counts = cluster.partitions_of(sorted(self.topics))
        missing = [one for one in self.chosen if one.partition >= counts[one.topic]]
        if missing:
            raise UnknownTopic(topic=missing[0])
        return list(self.chosen)

    def existing(self, cluster: Cluster) -> list[TopicPartition]:
        counts = _counts(cluster, self.topics.__contains__)
        return [one for one in self.chosen if one.partition < counts.get(one.topic, 0)]

    def without(self, topics: Collection[str]) -> Assigned:
        return Assigned(tuple(one for one in self.chosen if one.topic not in topics))


Selection = Topics | TopicPattern | Assigned


def partitions_so_far(selection: Selection, cluster: Cluster, known: Collection[str]) -> list[TopicPartition]:
    """Those chosen, without topics that were never there; UnknownTopic where a `known` one is gone."""
    unknown = selection.topics - set(known)
    there = {one.topic for one in selection.existing(cluster)} if unknown else set()
    return selection.without(unknown - there).partitions(cluster)


def selection_of(settings: Mapping[str, str]) -> Selection:
    """The one of subscribe, subscribePattern and assign that is set."""
    given = [name for name in ("subscribe", "subscribePattern", "assign") if settings.get(name.lower())]
    if len(given) != 1:
        raise BadSourceOption(
            name="subscribe",
            reason=f"set one of subscribe, subscribePattern and assign, not {' and '.join(given) or 'none'}",
        )
    text = settings[given[0].lower()]
    if given[0] == "subscribe":
        return _subscribed({name.strip() for name in text.split(",") if name.strip()})
    if given[0] == "subscribePattern":
        return TopicPattern(_checked_pattern(text))
    return Assigned(_assigned(text))


def _subscribed(names: set[str]) -> Selection:
    """Topics by name, of streams too (`/apps/pump:warning`); `/apps/pump:*` is all topics of a stream."""
    if any(map(is_whole_stream, names)):
        return TopicPattern("|".join(sorted(map(topic_pattern, names))))
    return Topics(tuple(sorted(map(parse_topic, names))))


def _counts(cluster: Cluster, wanted: Callable[[str], bool]) -> dict[str, int]:
    return {
        topic.name: len(topic.partitions)
        for topic in cluster.metadata(None)
        if topic.name is not None and wanted(topic.name)
    }


def _all_of(counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]


def _checked_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadSourceOption(
            name="subscribePattern", reason=f"{text!r} is no regular expression: {error}"
        ) from error
    return text


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        found = {
            TopicPartition(parse_topic(str(topic)), int(number))
            for topic, numbers in json.loads(text).items()
            for number in numbers
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise BadSourceOption(
            name="assign", reason=f"{text!r} is no JSON of topics with lists of partitions"
        ) from error
    return tuple(sorted(found))
