"""What stands in for the clock, the event loop and the disk around a coordinator under test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from oncestream.broker.clock import Clock
from oncestream.broker.partition import SyncCallback
from oncestream.broker.state_log import Producer, Replayer, StateRecord, Transaction, java_hash
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import KafkaError

PARTITIONS = 4


class HandClock(Clock):
    """Stands still until moved."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        return self.ms + self.wrong_by_ms

    def elapsed_ms(self) -> int:
        return self.ms


class NoAlarm:
    """The test calls `tick` itself."""

    def call_later(self, _delay: float, _callback: Callable[[], object]) -> asyncio.TimerHandle:
        class Handle:
            def cancel(self) -> None: ...

        return cast("asyncio.TimerHandle", Handle())


class MemoryLog:
    """A log whose writes are durable at once, or when the test says so; it can fail."""

    def __init__(self) -> None:
        self.partitions: list[list[tuple[StateRecord, Transaction | None] | tuple[Transaction, bool]]] = [
            [] for _ in range(PARTITIONS)
        ]
        self.holds_back = False
        self.refuses: KafkaError | None = None
        self._waiting: list[SyncCallback] = []

    def partition_of(self, name: str) -> int:
        return (java_hash(name) & 0x7FFFFFFF) % PARTITIONS

    def append(
        self, index: int, records: Sequence[StateRecord], now_ms: int, producer: Producer | None = None
    ) -> Appended:
        if self.refuses is not None:
            raise self.refuses
        log = self.partitions[index]
        base = len(log)
        transaction = None if producer is None else Transaction(index, producer.id)
        log.extend((record, transaction) for record in records)
        return Appended(base, len(log) - 1, -1, 0, False)

    def append_marker(self, index: int, producer_id: int, commit: bool) -> None:
        self.partitions[index].append((Transaction(index, producer_id), commit))

    def when_durable(self, index: int, callback: SyncCallback) -> None:
        if self.holds_back:
            self._waiting.append(callback)
        else:
            callback(None)

    def flush(self, error: KafkaError | None = None) -> None:
        self.holds_back = False
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(error)

    def replay(self, replayer: Replayer) -> int:
        for log in self.partitions:
            for offset, entry in enumerate(log):
                if isinstance(entry[0], Transaction):
                    replayer.end_transaction(entry[0], bool(entry[1]))
                else:
                    replayer.replay(entry[0], offset, entry[1])
        return sum(map(len, self.partitions))
