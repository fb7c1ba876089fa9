"""Places in a log as people write them: earliest, latest, committed, offset:N, time:T, -N."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadArgument

OFFSET_MAX: Final = 2**63 - 1
WINDOW_MIN: Final = 64  # offsets that are looked at first for the last N records: markers stand between them
WINDOW_GROWTH: Final = 4


class Kind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    OFFSET = "offset"
    TIME = "time"
    LAST = "last"


class Position(NamedTuple):
    """`value`: the offset, the time in ms, or how many records before the end."""

    kind: Kind
    value: int = 0


def parse_position(option: str, text: str, allowed: Collection[Kind]) -> Position:
    """BadArgument, naming the option, where the text is none of the allowed kinds."""
    found = _parse(text)
    if found is None or found.kind not in allowed:
        forms = ", ".join(_FORMS[kind] for kind in Kind if kind in allowed)
        raise BadArgument(name=f"{option} {text!r}", reason=f"it is none of {forms}")
    return found


def parse_time_ms(text: str) -> int | None:
    """ISO 8601 (UTC where it names no zone), or milliseconds since 1970."""
    if text.isdecimal() and text.isascii():
        return min(int(text), OFFSET_MAX)
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    position: Position,
    *,
    read_committed: bool = True,
) -> dict[TopicPartition, int]:
    """The offset of each partition, never outside its log; after the last record where none is as young."""
    wanted = list(partitions)
    starts = list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST), read_committed=read_committed)
    at_time: dict[TopicPartition, int | None] = {}
    last: Mapping[TopicPartition, int] = {}
    if position.kind is Kind.TIME:
        at_time = list_offsets(cluster, dict.fromkeys(wanted, position.value), read_committed=read_committed)
    if position.kind is Kind.LAST:
        logs = {each: (starts[each] or 0, ends[each] or 0) for each in wanted}
        last = _last_records(cluster, logs, position.value, read_committed=read_committed)
    found = {}
    for partition in wanted:
        start, end = starts[partition] or 0, ends[partition] or 0
        by_time = at_time.get(partition)
        place = {
            Kind.EARLIEST: start,
            Kind.LATEST: end,
            Kind.OFFSET: position.value,
            Kind.LAST: last.get(partition, end),
            Kind.TIME: end if by_time is None else by_time,
        }[position.kind]
        found[partition] = max(start, min(place, end))
    return found


def _last_records(
    cluster: Cluster,
    logs: Mapping[TopicPartition, tuple[int, int]],
    count: int,
    *,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    """Where the last `count` records of each log begin that a reader sees; its start where it has fewer.

    Markers, aborted records and gaps of compaction take offsets too, so the log is read backwards, piece by piece.
    """
    from oncestream.client.reading import read_many  # Arrow comes with it, which no other command waits for

    lacking = {at: count for at, (start, end) in logs.items() if start < end and count}
    tops = {at: logs[at][1] for at in lacking}
    window = max(WINDOW_MIN, count)
    found: dict[TopicPartition, int] = {}
    while lacking:
        pieces = {at: (max(logs[at][0], tops[at] - window), tops[at]) for at in lacking}
        seen: dict[TopicPartition, deque[int]] = {at: deque(maxlen=lacking[at]) for at in lacking}
        for at, batch in read_many(cluster, pieces, read_committed=read_committed):
            seen[at].extend(batch.column("offset").to_pylist())
        for at, offsets in seen.items():
            lacking[at] -= len(offsets)
            tops[at] = pieces[at][0]
            found[at] = offsets[0] if offsets else found.get(at, logs[at][1])
        lacking = {at: left for at, left in lacking.items() if left and tops[at] > logs[at][0]}
        window *= WINDOW_GROWTH
    return found


def _parse(text: str) -> Position | None:
    if text in (Kind.EARLIEST, Kind.LATEST, Kind.COMMITTED):
        return Position(Kind(text))
    if text.startswith("-") and _is_number(text[1:]):
        return Position(Kind.LAST, int(text[1:]))
    kind, _, value = text.partition(":")
    if kind == Kind.OFFSET and _is_number(value):
        return Position(Kind.OFFSET, int(value))
    if kind == Kind.TIME and (at_ms := parse_time_ms(value)) is not None and at_ms >= 0:
        return Position(Kind.TIME, at_ms)
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= OFFSET_MAX


_FORMS: Final = {
    Kind.EARLIEST: "earliest",
    Kind.LATEST: "latest",
    Kind.COMMITTED: "committed",
    Kind.OFFSET: "offset:N",
    Kind.TIME: "time:2026-01-31T12:00:00Z",
    Kind.LAST: "-N (the last N records of each partition)",
}
