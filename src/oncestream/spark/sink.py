"""Where a pipeline's rows go: topics, the choice of a partition, compression, dead letters. Sent to executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oncestream.client.settings import ClientSettings
from oncestream.records.compression import Codec

# A user's choice of a partition: (row, number of partitions) -> partition.
Partitioner = Callable[[dict[str, Any], int], int]


class PartitionBy(StrEnum):
    """How a row finds its partition."""

    AUTO = "auto"  # column `partition` where there is one, else key
    COLUMN = "column"
    KEY = "key"  # murmur2 of the key, as Java's producer; rows without a key go round robin
    ROUND_ROBIN = "round-robin"


class Delivery(StrEnum):
    """What a pipeline promises of each input row."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True, slots=True)
class Sink:
    """`topic` None: column `topic` says where each row goes."""

    settings: ClientSettings
    pipeline: str
    topic: str | None
    dead_topic: str
    partition_by: PartitionBy | Partitioner = PartitionBy.AUTO
    codec: Codec = Codec.NONE
