"""Where reading begins and ends: earliest, latest, a group's commits, a time, or offsets given one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadSourceOption, NoRecordAtTime
from oncestream.streams.names import parse_topic

# What -1 and -2 mean in Spark's JSON of offsets.
_JSON_LATEST: Final = -1
_JSON_EARLIEST: Final = -2


class Edge(Enum):
    """The rule for partitions that have no offset or time of their own."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Place:
    """One position for each partition, still to be looked up."""

    edge: Edge
    time_ms: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    # For a partition where the group has no commit, or where nothing is as young as the time (None: an error).
    otherwise: Edge | None = None


def starting_place(settings: Mapping[str, str], default: Edge, *, reset: str) -> Place:
    """As the options say; of several, a time for all wins over times, and those over offsets, as in Spark."""
    strategy = settings.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise BadSourceOption(
            name="startingOffsetsByTimestampStrategy", reason=f"{strategy!r} is neither error nor latest"
        )
    late = Edge.LATEST if strategy == "latest" else None
    by_time = _timed(settings, "starting", Edge.EARLIEST, late)
    if by_time is not None:
        return by_time
    text = settings.get("startingoffsets")
    if text is not None and text.lower() == Edge.COMMITTED.value:
        if reset not in (Edge.EARLIEST.value, Edge.LATEST.value):
            raise BadSourceOption(
                name="kafka.auto.offset.reset", reason=f"{reset!r} is neither earliest nor latest"
            )
        return Place(Edge.COMMITTED, otherwise=Edge(reset))
    return _by_offsets("startingOffsets", text, default, rest=Edge.EARLIEST)


def ending_place(settings: Mapping[str, str]) -> Place:
    by_time = _timed(settings, "ending", Edge.LATEST, Edge.LATEST)
    if by_time is not None:
        return by_time
    place = _by_offsets("endingOffsets", settings.get("endingoffsets"), Edge.LATEST, rest=Edge.LATEST)
    if place.edge is Edge.EARLIEST or _JSON_EARLIEST in place.offsets.values():
        raise BadSourceOption(
            name="endingOffsets", reason="a batch cannot end at earliest: it would be empty"
        )
    return place


def find(
    cluster: Cluster,
    place: Place,
    partitions: Iterable[TopicPartition],
    *,
    group: str | None,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    """The offset of the place in each partition."""
    partitions = list(partitions)
    _refuse_strangers(place, partitions)
    found = {one: place.offsets[one] for one in partitions if place.offsets.get(one, -1) >= 0}
    if place.edge is Edge.COMMITTED:
        assert group is not None
        commits = committed_offsets(cluster, group, partitions)
        found |= {one: commit.offset for one, commit in commits.items() if commit.offset >= 0}
    questions = {one: _question(place, one) for one in partitions if one not in found}
    answers = list_offsets(cluster, questions, read_committed=read_committed)
    missing = [one for one in questions if answers.get(one) is None]
    if missing and place.otherwise is None:
        raise NoRecordAtTime(topic=missing[0].topic, partition=missing[0].partition)
    if missing:
        answers = {
            **answers,
            **list_offsets(cluster, dict.fromkeys(missing, LATEST), read_committed=read_committed),
        }
    return found | {one: offset for one, offset in answers.items() if offset is not None}


def _question(place: Place, partition: TopicPartition) -> int:
    """What to ask ListOffsets: a time in ms, or one of its two special times."""
    time_ms = place.times_ms.get(partition, place.time_ms)
    if time_ms is not None:
        return time_ms
    edge = place.otherwise if place.edge is Edge.COMMITTED else place.edge
    if place.offsets.get(partition) == _JSON_LATEST:
        return LATEST
    if place.offsets.get(partition) == _JSON_EARLIEST:
        return EARLIEST
    return LATEST if edge is Edge.LATEST else EARLIEST


def _refuse_strangers(place: Place, partitions: list[TopicPartition]) -> None:
    strangers = sorted((place.offsets.keys() | place.times_ms.keys()) - set(partitions))
    if strangers:
        raise BadSourceOption(
            name="startingOffsets or endingOffsets",
            reason=f"partition {strangers[0].partition} of topic {strangers[0].topic} is not among those read",
        )


def _timed(settings: Mapping[str, str], side: str, rest: Edge, otherwise: Edge | None) -> Place | None:
    for_all = settings.get(f"{side}timestamp")
    if for_all is not None:
        if not for_all.strip().isdecimal():
            raise BadSourceOption(name=f"{side}Timestamp", reason=f"{for_all!r} is no time in milliseconds")
        return Place(Edge.TIME, time_ms=int(for_all), otherwise=otherwise)
    name = f"{side}OffsetsByTimestamp"
    text = settings.get(name.lower())
    if text is None:
        return None
    return Place(rest, times_ms=_per_partition(name, text, least=0), otherwise=otherwise)


def _by_offsets(name: str, text: str | None, default: Edge, *, rest: Edge) -> Place:
    if text is None:
        return Place(default)
    if text.lower() in (Edge.EARLIEST.value, Edge.LATEST.value):
        return Place(Edge(text.lower()))
    return Place(rest, offsets=_per_partition(name, text, least=_JSON_EARLIEST))


def _per_partition(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """Spark's JSON, `{"topic": {"0": 23, "1": -1}}`."""
    try:
        numbers = {
            TopicPartition(parse_topic(str(topic)), int(partition)): int(number)
            for topic, partitions in json.loads(text).items()
            for partition, number in partitions.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise BadSourceOption(
            name=name, reason=f'{text!r} is not a known word, nor JSON such as {{"topic": {{"0": 23}}}}'
        ) from error
    if any(number < least for number in numbers.values()):
        raise BadSourceOption(name=name, reason=f"{text!r} holds a number below {least}")
    return numbers
