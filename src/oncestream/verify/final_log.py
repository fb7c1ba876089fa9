"""What a partition holds for readers of committed records, once nothing writes to it any more."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.reading import read_range
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import RequestTimedOut
from oncestream.verify.anomalies import Witness

NOT_A_NUMBER: Final = -1  # in place of a value that cannot be one of ours
AROUND: Final = 2  # records shown on both sides of a place
STABLE_WAIT_S: Final = 120.0
STABLE_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class FinalLog:
    """16 bytes a record, in the order of offsets. `start`: what lies below was deleted."""

    at: TopicPartition
    start: int = 0
    offsets: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    @staticmethod
    def of(at: TopicPartition, records: Iterable[tuple[int, int]], start: int = 0) -> FinalLog:
        """Of (offset, value) in the order of offsets."""
        log = FinalLog(at, start)
        for offset, value in records:
            log.offsets.append(offset)
            log.values.append(value)
        return log

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.offsets, self.values, strict=True)

    def value_at(self, offset: int) -> int | None:
        place = bisect_left(self.offsets, offset)
        found = place < len(self.offsets) and self.offsets[place] == offset
        return self.values[place] if found else None

    def next_after(self, offset: int) -> tuple[int, int] | None:
        """The first record above the offset."""
        place = bisect_right(self.offsets, offset)
        return (self.offsets[place], self.values[place]) if place < len(self.offsets) else None

    def count_between(self, first: int, end: int) -> int:
        """Records with first <= offset < end."""
        return max(0, bisect_left(self.offsets, end) - bisect_left(self.offsets, first))

    def around(self, first: int, last: int | None = None) -> list[Witness]:
        """The records at and next to an offset, or a range of them."""
        low = bisect_left(self.offsets, first)
        high = bisect_right(self.offsets, first if last is None else last)
        places = range(max(0, low - AROUND), min(len(self.offsets), high + AROUND))
        if len(places) > 4 * AROUND:
            places = range(places.start, places.start + 4 * AROUND)
        return [Witness("log", self.at, self.offsets[place], self.values[place]) for place in places]


def read_final_logs(
    cluster: Cluster, topics: Iterable[str], *, wait_s: float = STABLE_WAIT_S
) -> dict[TopicPartition, FinalLog]:
    """Reads whole topics, once every transaction that is open now has ended."""
    everywhere = [
        TopicPartition(topic, number)
        for topic, count in cluster.partitions_of(topics).items()
        for number in range(count)
    ]
    starts = list_offsets(cluster, dict.fromkeys(everywhere, EARLIEST))
    ends = stable_ends(cluster, everywhere, wait_s=wait_s)
    return {at: _read(cluster, at, starts[at] or 0, ends[at]) for at in everywhere}


def stable_ends(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, wait_s: float = STABLE_WAIT_S
) -> dict[TopicPartition, int]:
    """The ends of the logs as they are now, once no open transaction lies below them."""
    wanted = dict.fromkeys(partitions, LATEST)
    ends = {at: end or 0 for at, end in list_offsets(cluster, wanted, read_committed=False).items()}
    deadline = time.monotonic() + wait_s
    while unstable := [
        at for at, stable in list_offsets(cluster, wanted).items() if (stable or 0) < ends[at]
    ]:
        if time.monotonic() > deadline:
            raise RequestTimedOut(
                api=f"reading {unstable[0]} to its end", timeout_s=wait_s, reason="a transaction stays open"
            )
        time.sleep(STABLE_POLL_S)
    return ends


def _read(cluster: Cluster, at: TopicPartition, start: int, end: int) -> FinalLog:
    log = FinalLog(at, start)
    for rows in read_range(cluster, at, start, end):
        log.offsets.extend(rows.column("offset").to_pylist())
        log.values.extend(map(number_of, rows.column("value").to_pylist()))
    return log


def number_of(value: bytes | None) -> int:
    """The number in a record that a recorder has sent; it ends at the first blank."""
    digits = (value or b"").partition(b" ")[0]
    return int(digits) if digits.isdigit() and len(digits) < 19 else NOT_A_NUMBER
