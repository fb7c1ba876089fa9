"""How far a pipeline came, kept in Kafka in the transaction of its rows.

Offsets of sources on the sink's cluster are committed to the group of the pipeline's name, with the batch as
metadata. Any other position (files, tables, another cluster) and finished runs of batch loads are records in
the compacted topic `oncestream.progress`, keyed by pipeline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import EARLIEST, LATEST, Committed, committed_offsets, list_offsets
from oncestream.client.reading import read_range
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import RequestTimedOut, UnknownTopic
from oncestream.records.murmur2 import key_hash

TOPIC: Final = "oncestream.progress"
PROGRESS_TOPIC: Final = NewTopic(TOPIC, partitions=8, configs={"cleanup.policy": "compact"})
STABLE_WAIT_S: Final = 120.0
STABLE_POLL_S: Final = 0.02


class Marker(NamedTuple):
    """The last batch of a query that is committed."""

    query: str
    batch: int

    def metadata(self) -> str:
        return json.dumps({"query": self.query, "batch": self.batch})


class Progress(NamedTuple):
    """What Kafka knows of a pipeline; all empty where it never committed."""

    markers: list[Marker]
    others: list[str]  # positions of sources that are not in the group's offsets

    def batch_of(self, query: str) -> int:
        """The last committed batch of this query, -1 for none."""
        return max((marker.batch for marker in self.markers if marker.query == query), default=-1)

    def is_of_another(self, query: str | None) -> bool:
        """Work was committed, but none of it by this query."""
        return bool(self.markers) and all(marker.query != query for marker in self.markers)


def read_progress(cluster: Cluster, pipeline: str, sources: Iterable[TopicPartition] = ()) -> Progress:
    """Waits until no transaction is in the way; of a first commit only if its partitions are named."""
    committed = committed_offsets(cluster, pipeline)
    named = [at for at in sources if at not in committed]
    committed |= committed_offsets(cluster, pipeline, named) if named else {}
    markers = [marker for entry in committed.values() if (marker := _marker_of(entry.metadata)) is not None]
    record = read_record(cluster, pipeline_key(pipeline))
    others: list[str] = []
    if record is not None:
        markers.append(Marker(record["query"], record["batch"]))
        others = record["sources"]
    return Progress(markers, others)


def group_offsets(offsets: Mapping[TopicPartition, int], marker: Marker) -> dict[TopicPartition, Committed]:
    """What to commit for the sources on the sink's own cluster."""
    return {at: Committed(offset, marker.metadata()) for at, offset in offsets.items()}


def progress_row(key: str, content: Mapping[str, Any]) -> pa.RecordBatch:
    """The progress record of a pipeline or a run, as a row to write."""
    value = json.dumps(content).encode()
    return pa.RecordBatch.from_arrays(
        [pa.array([key.encode()], pa.binary()), pa.array([value], pa.binary())], names=["key", "value"]
    )


def pipeline_key(pipeline: str) -> str:
    return json.dumps({"pipeline": pipeline})


def run_key(pipeline: str, run: str) -> str:
    return json.dumps({"pipeline": pipeline, "run": run})


def progress_partition(cluster: Cluster, key: str) -> TopicPartition:
    """Where the record of this key belongs; makes the topic where it is missing."""
    try:
        partitions = cluster.partitions_of([TOPIC])[TOPIC]
    except UnknownTopic:
        create_topics(cluster, [PROGRESS_TOPIC], exist_ok=True)
        partitions = cluster.partitions_of([TOPIC])[TOPIC]
    return TopicPartition(TOPIC, key_hash(key.encode()) % partitions)


def read_record(cluster: Cluster, key: str) -> dict[str, Any] | None:
    """The last committed record of this key, if any."""
    at = progress_partition(cluster, key)
    start = list_offsets(cluster, {at: EARLIEST})[at]
    end = _stable_end(cluster, at)
    found: dict[str, Any] | None = None
    for rows in read_range(cluster, at, start or 0, end):
        for row_key, value in zip(
            rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
        ):
            if row_key == key.encode():
                found = None if value is None else json.loads(value)
    return found


def _stable_end(cluster: Cluster, at: TopicPartition) -> int:
    """The end of the partition, once the transactions that are open now, of other pipelines, are over."""
    end = list_offsets(cluster, {at: LATEST}, read_committed=False)[at] or 0
    deadline = time.monotonic() + STABLE_WAIT_S
    while (list_offsets(cluster, {at: LATEST})[at] or 0) < end:
        if time.monotonic() > deadline:
            raise RequestTimedOut(
                api=f"reading {at.topic}-{at.partition}",
                reason="a transaction of another pipeline stays open",
            )
        time.sleep(STABLE_POLL_S)
    return end


def _marker_of(metadata: str | None) -> Marker | None:
    try:
        content = json.loads(metadata or "null")
        return Marker(content["query"], content["batch"]) if content else None
    except (ValueError, TypeError, KeyError):
        return None
