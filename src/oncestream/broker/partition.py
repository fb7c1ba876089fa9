"""A partition as clients see it: its log, what of it is visible, and who waits for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from oncestream.storage.log import Log
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError


class FetchWaiter(Protocol):
    """Somebody who waits for a partition to grow."""

    def on_advance(self) -> None:
        """Runs inside the append: it only asks the loop to look soon, so that it cannot fail or take long."""


SyncCallback = Callable[[KafkaError | None], None]


class Partition:
    """One partition. With durability fsync nothing is visible before it is on the disk."""

    __slots__ = ("_request_sync", "_sync_waits", "_visible", "index", "log", "topic", "waiters")

    def __init__(
        self, topic: str, index: int, log: Log, request_sync: Callable[[Partition], None] | None
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.waiters: set[FetchWaiter] = set()
        self._request_sync = request_sync
        self._sync_waits: deque[tuple[int, SyncCallback]] = deque()
        self._visible = log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._visible

    @property
    def last_stable_offset(self) -> int:
        return self.log.stable_offset(self._visible)

    def append(self, batch: memoryview) -> Appended:
        """Appends one batch of a client; it becomes visible at once or with the next flush."""
        appended = self.log.append(batch)
        self.appended()
        return appended

    def appended(self) -> None:
        """To be called after every append to the log."""
        durability = self.log.durability
        if self._request_sync is None:
            self._advance(durability.end_offset)
        elif durability.synced_offset < durability.end_offset:
            self._request_sync(self)

    def when_synced(self, offset: int, callback: SyncCallback) -> None:
        """Calls back once everything below `offset` is as durable as the settings promise."""
        if self._visible >= offset:
            callback(None)
        elif self.log.failed is not None:
            callback(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.log.failed)))
        else:
            self._sync_waits.append((offset, callback))

    def on_synced(self) -> None:
        """A flush of the log has ended, well or not."""
        if self.log.failed is not None:
            waits, self._sync_waits = self._sync_waits, deque()
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.log.failed))
            for _, callback in waits:
                callback(error)
            self._wake()  # what they wait for will never come
        self._advance(self.log.synced_offset)

    def gone(self) -> None:
        """The topic was deleted: nobody waits any longer."""
        waits, self._sync_waits = self._sync_waits, deque()
        for _, callback in waits:
            callback(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic was deleted."))
        self._wake()

    def _advance(self, offset: int) -> None:
        if offset <= self._visible:
            return
        self._visible = offset
        waits = self._sync_waits
        while waits and waits[0][0] <= offset:
            waits.popleft()[1](None)
        self._wake()

    def _wake(self) -> None:
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.on_advance()
