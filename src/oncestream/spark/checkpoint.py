"""What a streaming query's checkpoint says: its id, and where each source of a batch ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

from oncestream.client.topic_partition import TopicPartition
from oncestream.spark.stream_offset import StreamOffset

OFFSETS_VERSION: Final = "v1"
NO_OFFSET: Final = "-"


class SourceEnd(NamedTuple):
    """Where one source ends in a batch: offsets if it is a Kafka source, else its own words."""

    text: str
    cluster_id: str | None = None  # None: Spark's own Kafka source, or no Kafka at all
    offsets: Mapping[TopicPartition, int] | None = None
    begins: Mapping[TopicPartition, int] = MappingProxyType({})  # where it began, if only this batch knows


class Checkpoint:
    """A query's checkpoint folder, on this machine or on any file system Spark knows."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self.location = location
        parsed = urlparse(location)
        self._local = Path(unquote(parsed.path) or location) if parsed.scheme in ("", "file") else None

    def query_id(self) -> str | None:
        """None: no query has used it yet."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def ends_of(self, batch_id: int) -> list[SourceEnd]:
        """Spark writes them before the batch runs; empty where it has not."""
        text = self._read(f"offsets/{batch_id}")
        if text is None:
            return []
        version, _, *sources = text.splitlines()
        if version != OFFSETS_VERSION:
            raise ValueError(
                f"{self.location}/offsets/{batch_id} has version {version}, only {OFFSETS_VERSION} is known"
            )
        return [_source_end(line) for line in sources]

    def _read(self, name: str) -> str | None:
        if self._local is not None:
            try:
                return (self._local / name).read_text()
            except FileNotFoundError:
                return None
        jvm: Any = self._spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}")
        system = path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()


def _source_end(line: str) -> SourceEnd:
    if line == NO_OFFSET:
        return SourceEnd(line)
    try:
        content = json.loads(line)
    except ValueError:
        return SourceEnd(line)
    if not isinstance(content, dict):
        return SourceEnd(line)
    if content.keys() >= {"cluster", "offsets"}:
        ours = StreamOffset.of(content)
        return SourceEnd(line, ours.cluster, ours.ends, ours.begins)
    return SourceEnd(line, None, _offsets(content))


def _offsets(content: dict[str, Any]) -> dict[TopicPartition, int] | None:
    """Offsets of Spark's own Kafka source, if that is what it is."""
    offsets = {}
    for topic, partitions in content.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if not (partition.isdigit() and isinstance(offset, int)):
                return None
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets
