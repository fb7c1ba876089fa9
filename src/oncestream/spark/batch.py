"""A micro-batch: what identifies it, where its sources end, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from oncestream.client.topic_partition import TopicPartition
from oncestream.spark.checkpoint import SourceEnd
from oncestream.spark.progress import Marker


class Step(StrEnum):
    """The moments of a batch at which a crash means something different. Tests kill the driver there."""

    BEGUN = "begun"  # nothing is written
    WRITTEN = "written"  # every row is acknowledged, the offsets are not in the transaction yet
    OFFSETS_ADDED = "offsets added"  # all is in the transaction, EndTxn is next
    COMMITTED = "committed"  # EndTxn is answered, Spark does not know yet


OnStep = Callable[[Step, int], None]
OnOutcome = Callable[["Outcome"], None]


class Batch(NamedTuple):
    """Offsets on the sink's own cluster, and the words of every other source."""

    marker: Marker
    offsets: dict[TopicPartition, int]
    others: list[str]
    rows_in: int | None  # how many rows the sources bring, at most; None where they do not say
    run: str | None = None  # of a batch load: what is kept in place of the marker

    @property
    def name(self) -> str:
        return self.run if self.run is not None else str(self.marker.batch)


class Outcome(NamedTuple):
    """One line of the log, one tick of the progress bar."""

    pipeline: str
    batch: int
    rows: int
    dead: int
    attempts: int
    path: str
    write_s: float
    commit_s: float
    total_s: float
    skipped: bool = False
    first_dead: str | None = None  # why the first of the dead letters is one

    def line(self) -> str:
        rate = self.rows / self.total_s if self.total_s else 0.0
        return (
            f"pipeline={self.pipeline} batch={self.batch} rows={self.rows} dead={self.dead}"
            f" attempts={self.attempts} path={self.path!r} write_ms={self.write_s * 1000:.0f}"
            f" commit_ms={self.commit_s * 1000:.0f} total_ms={self.total_s * 1000:.0f} rows_per_s={rate:.0f}"
            + (" skipped=already-committed" if self.skipped else "")
        )

    def dead_line(self) -> str:
        return (
            f"pipeline={self.pipeline} batch={self.batch} has {self.dead} dead letters,"
            f" the first because: {self.first_dead}"
        )


def batch_of(
    marker: Marker,
    ends: list[SourceEnd],
    starts: list[SourceEnd],
    own_cluster: str,
    is_own: Callable[[int], bool],
) -> Batch:
    """`is_own(i)`: whether source i, one of Spark's own Kafka sources, reads from the sink's cluster."""
    offsets: dict[TopicPartition, int] = {}
    others: list[str] = []
    rows_in: int | None = 0
    for index, end in enumerate(ends):
        # Before its first batch a source stands at 0 or later: the bound holds.
        start = starts[index].offsets if index < len(starts) else {}
        if end.offsets is None or start is None or rows_in is None:
            rows_in = None
        else:
            rows_in += sum(
                offset - start.get(at, end.begins.get(at, 0)) for at, offset in end.offsets.items()
            )
        own = end.offsets is not None and (
            end.cluster_id == own_cluster or (end.cluster_id is None and is_own(index))
        )
        if not own or end.offsets is None:
            others.append(end.text)
            continue
        for at, offset in end.offsets.items():
            # A topic read twice (a self-join) counts as read as far as both have come.
            offsets[at] = min(offset, offsets.get(at, offset))
    return Batch(marker, offsets, others, rows_in)
