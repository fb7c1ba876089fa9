"""What a consumer holds: its partitions, how far each was read, finished and committed. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import confluent_kafka

from oncestream.client.topic_partition import TopicPartition


class Reading(NamedTuple):
    """Offsets to commit in a producer's transaction, and as which member of the group they were read."""

    offsets: dict[TopicPartition, int]
    metadata: Any

    def as_kafka(self) -> list[confluent_kafka.TopicPartition]:
        return kafka_offsets(self.offsets)


@dataclass(slots=True)
class Assignment:
    """Positions are offsets of the next record. A partition that was never read has none."""

    owned: set[TopicPartition] = field(default_factory=set)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    # Where each stands for the group: what was committed, or the first record that was handed out.
    bases: dict[TopicPartition, int] = field(default_factory=dict)
    finished: dict[TopicPartition, int] = field(default_factory=dict)
    # Partitions that went while records of them were read and not committed: another member reads them again.
    taken_away: set[TopicPartition] = field(default_factory=set)
    _unfinished: set[TopicPartition] = field(default_factory=set)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.owned |= set(partitions)

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            if self._is_uncommitted(each):
                self.taken_away.add(each)
            self.owned.discard(each)
            self._unfinished.discard(each)
            for places in (self.positions, self.bases, self.finished):
                places.pop(each, None)

    def handed_out(self, partition: TopicPartition, offset: int) -> None:
        self.bases.setdefault(partition, offset)
        self.positions[partition] = offset + 1
        self._unfinished.add(partition)

    def finish(self) -> None:
        """The program asks for more: it is through with all that it has."""
        for each in self._unfinished:
            self.finished[each] = self.positions[each]
        self._unfinished.clear()

    def sought(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset
        self.finished.pop(partition, None)
        self._unfinished.discard(partition)

    def uncommitted(self) -> dict[TopicPartition, int]:
        return {each: self.positions[each] for each in self.positions if self._is_uncommitted(each)}

    def uncommitted_finished(self) -> dict[TopicPartition, int]:
        return {each: at for each, at in self.finished.items() if self.bases.get(each) != at}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.bases |= {each: offset for each, offset in offsets.items() if each in self.owned}

    def rewind(self) -> dict[TopicPartition, int]:
        """Back to where the group stands; answers the partitions that must move."""
        self.taken_away.clear()
        self.finished.clear()
        self._unfinished.clear()
        back = {each: self.bases[each] for each in self.uncommitted() if each in self.bases}
        self.positions |= back
        return back

    def _is_uncommitted(self, partition: TopicPartition) -> bool:
        position = self.positions.get(partition)
        return position is not None and self.bases.get(partition) != position


def kafka_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]
