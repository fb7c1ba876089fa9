"""How far the partitions of a stream can be read now, and what became of them since the last batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import UnknownTopic
from oncestream.spark.ranges import Range
from oncestream.spark.scan import lost
from oncestream.spark.selection import partitions_so_far
from oncestream.spark.source_options import SourceOptions
from oncestream.spark.stream_offset import StreamOffset

# New partitions and topics are looked for so often; in between, a batch costs one request to each leader.
DISCOVERY_S: Final = 1.0
_log = logging.getLogger(__name__)


class Frontier:
    """Keeps the list of partitions between looks at the metadata."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._partitions: list[TopicPartition] = []
        self._looked_at_s = float("-inf")
        self._some_are_gone = False
        self._seen: set[str] = set()  # topics that were there once

    def now(self, cluster: Cluster, known: Iterable[TopicPartition] = ()) -> dict[TopicPartition, int]:
        """The end of every partition: the last stable offset, for a stream of committed records.

        `known`: partitions that were there before.
        """
        unexpected = {one.topic for one in known} - self._seen
        self._seen |= unexpected
        if unexpected or self._clock() - self._looked_at_s >= DISCOVERY_S:
            self._look(cluster)
        try:
            return self._ends(cluster)
        except UnknownTopic:
            self._look_for_existing(cluster)
            return self._ends(cluster)

    def ahead(
        self, cluster: Cluster, before: StreamOffset, latest: Mapping[TopicPartition, int]
    ) -> tuple[list[Range], dict[TopicPartition, int]]:
        """What can be read after `before`, and where partitions begin that it does not know or that were remade."""
        for gone in sorted(before.ends.keys() - latest.keys()):
            lost(self._options, gone, before.ends[gone], "the topic or partition is gone")
        behind = [one for one, end in latest.items() if end < before.ends.get(one, end)]
        remade = self._remade(cluster, before, behind)
        new = [one for one in latest if one not in before.ends]
        if new:
            _log.info("the stream goes on to new partitions: %s", ", ".join(map(str, new)))
        begins = _earliest(cluster, [*new, *remade])
        ranges = []
        for one, end in sorted(latest.items()):
            start = begins.get(one, before.ends.get(one, 0))
            ranges.append(Range(one, start, max(start, end)))
        return ranges, begins

    def _remade(
        self, cluster: Cluster, before: StreamOffset, behind: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Those whose log ends before what was read. An open transaction at the start is no such case."""
        if not behind:
            return []
        ends = list_offsets(cluster, dict.fromkeys(behind, LATEST), read_committed=False)
        remade = [one for one in behind if (ends[one] or 0) < before.ends[one]]
        for one in remade:
            lost(
                self._options,
                one,
                before.ends[one],
                f"its log ends at {ends[one]}: it was deleted and made anew",
            )
        return remade

    def _look(self, cluster: Cluster) -> None:
        if self._some_are_gone:
            self._look_for_existing(cluster)
            return
        try:
            self._partitions = self._chosen(cluster)
            self._seen |= {one.topic for one in self._partitions}
        except UnknownTopic:
            self._look_for_existing(cluster)
        self._looked_at_s = self._clock()

    def _chosen(self, cluster: Cluster) -> list[TopicPartition]:
        selection = self._options.selection
        if self._options.waits_for_topics:
            return partitions_so_far(selection, cluster, self._seen)
        return selection.partitions(cluster)

    def _look_for_existing(self, cluster: Cluster) -> None:
        """Once a topic has vanished it is not waited for any more; `ahead` tells what that means."""
        self._some_are_gone = True
        self._partitions = self._options.selection.existing(cluster)
        self._looked_at_s = self._clock()

    def _ends(self, cluster: Cluster) -> dict[TopicPartition, int]:
        questions = dict.fromkeys(self._partitions, LATEST)
        found = list_offsets(cluster, questions, read_committed=self._options.read_committed)
        return {one: offset for one, offset in found.items() if offset is not None}


def _earliest(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    questions = dict.fromkeys(partitions, EARLIEST)
    found = list_offsets(cluster, questions) if questions else {}
    return {one: offset or 0 for one, offset in found.items()}
