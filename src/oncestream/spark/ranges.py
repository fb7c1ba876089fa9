"""Ranges of offsets and how they are spread over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from oncestream.client.topic_partition import TopicPartition

# Ranges are put together into one task up to this size: starting a task costs as much as reading so many.
GATHER_RECORDS_MAX: Final = 10_000


class Range(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def records(self) -> int:
        return self.end - self.start


class Task(InputPartition):
    """What one Spark task reads: one range, or several small ones of different partitions."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


def total(ranges: Iterable[Range]) -> int:
    return sum(one.records for one in ranges)


def tasks_of(ranges: Sequence[Range], *, tasks_min: int | None, task_records_max: int | None) -> list[Task]:
    """One task for each partition; small ones gathered, or big ones split in proportion where asked."""
    if task_records_max is not None:
        ranges = [piece for one in ranges for piece in _split(one, -(-one.records // task_records_max))]
    if tasks_min is None:
        return _gathered(ranges)
    if len(ranges) < tasks_min:
        share = tasks_min / max(total(ranges), 1)
        ranges = [piece for one in ranges for piece in _split(one, max(round(one.records * share), 1))]
    return [Task([one]) for one in ranges]


def _split(whole: Range, pieces: int) -> list[Range]:
    pieces = min(pieces, whole.records)
    cuts = [whole.start + whole.records * number // pieces for number in range(pieces + 1)]
    return [Range(whole.partition, start, end) for start, end in pairwise(cuts)]


def _gathered(ranges: Sequence[Range]) -> list[Task]:
    """Neighbours together while they are small, but never two pieces of one partition."""
    groups: list[list[Range]] = []
    for one in ranges:
        last = groups[-1] if groups else []
        fits = total(last) + one.records <= GATHER_RECORDS_MAX
        if last and fits and one.partition not in {other.partition for other in last}:
            last.append(one)
        else:
            groups.append([one])
    return [Task(group) for group in groups]
