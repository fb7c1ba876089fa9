"""How far a stream has read, as Spark logs it in the checkpoint: JSON, compared as text, so of one fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncestream.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset to read of every partition, on one cluster.

    `begins` tells, for a batch that ends here, where it begins in partitions that the offset before it cannot
    tell of: all of them in the first batch (Spark logs no start for it, and asks for the initial offset again
    after a crash), and those that were found since.
    """

    cluster: str
    ends: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> StreamOffset:
        return cls(logged["cluster"], _flat(logged["offsets"]), _flat(logged.get("from", {})))

    @classmethod
    def initial(cls, cluster: str, offsets: Mapping[TopicPartition, int]) -> StreamOffset:
        return cls(cluster, offsets, offsets)

    @property
    def is_initial(self) -> bool:
        return self.begins == self.ends

    def logged(self) -> dict[str, Any]:
        begins = {"from": _nested(self.begins)} if self.begins else {}
        return {"cluster": self.cluster, **begins, "offsets": _nested(self.ends)}


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in nested.items()
        for number, offset in numbers.items()
    }


def _nested(flat: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for partition in sorted(flat):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = flat[partition]
    return nested
