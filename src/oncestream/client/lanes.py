"""What a writer has for each of its partitions: rows, encoded batches, and what became of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pyarrow as pa

from oncestream.client.topic_partition import TopicPartition
from oncestream.wire.schema import Buffer


@dataclass(slots=True, eq=False)
class Batch:
    lane: Lane
    data: Buffer
    rows: int
    failed: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """One partition: rows not encoded yet, batches to send, batches that came back, what was written."""

    partition: TopicPartition
    batch_bytes_max: int
    rows: list[pa.RecordBatch] = field(default_factory=list)
    unencoded_bytes: int = 0
    next_sequence: int = 0
    queue: deque[Batch] = field(default_factory=deque)
    in_flight: int = 0
    returned: list[Batch] = field(default_factory=list)
    confirmed: bool = False
    first_offset: int = -1
    last_offset: int = -1
    written: int = 0

    def may_send(self, numbered: bool) -> bool:
        """The first batch goes alone: a broker that knows nothing of a producer takes any sequence number."""
        return (
            bool(self.queue) and not self.returned and (self.confirmed or not self.in_flight or not numbered)
        )

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        self.in_flight -= 1
        self.confirmed = True
        self.written += batch.rows
        if base_offset >= 0:
            if self.first_offset < 0:
                self.first_offset = base_offset
            self.last_offset = max(self.last_offset, base_offset + batch.rows - 1)

    def put_back(self) -> int:
        """Batches that came back stand before all others again; their bytes."""
        assert not self.in_flight
        self.queue.extendleft(reversed(self.returned))
        size_bytes = sum(len(batch.data) for batch in self.returned)
        self.returned.clear()
        return size_bytes

    def take_report(self) -> tuple[int, int, int]:
        """First and last offset and number of rows since the last call; offsets are -1 where not known."""
        report = self.first_offset, self.last_offset, self.written
        self.first_offset = self.last_offset = -1
        self.written = 0
        return report
