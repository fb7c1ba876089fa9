"""An answer that waits until what was appended is as durable as the settings promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from oncestream.broker.alarm import Alarm, Scheduler
from oncestream.broker.clock import Clock
from oncestream.broker.later import Later
from oncestream.broker.partition import Partition
from oncestream.wire.error_codes import ErrorCode, KafkaError

Failures = dict[int, KafkaError]

LOOK_MS: Final = 50


class FlushTimeouts:
    """Ends waits that are too long. To look at all of them now and then costs less than a timer for each."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._clock = clock
        self._alarm = Alarm(scheduler, clock, self._look)
        self._due_ms: dict[FlushWait, int] = {}

    def watch(self, wait: FlushWait, timeout_ms: int) -> None:
        now_ms = self._clock.elapsed_ms()
        self._due_ms[wait] = now_ms + timeout_ms
        self._alarm.set(now_ms + LOOK_MS)

    def forget(self, wait: FlushWait) -> None:
        self._due_ms.pop(wait, None)

    def _look(self) -> None:
        now_ms = self._clock.elapsed_ms()
        for wait in [wait for wait, due_ms in self._due_ms.items() if due_ms <= now_ms]:
            wait.expire()
        if self._due_ms:
            self._alarm.set(now_ms + LOOK_MS)


class FlushWait(Later):
    """Resolved with what `answer` makes of the failures, which have the keys of their `waits`."""

    __slots__ = ("_answer", "_failures", "_open", "_timeout_ms", "_timeouts")

    def __init__(
        self,
        waits: Mapping[int, tuple[Partition, int]],
        timeout_ms: int,
        timeouts: FlushTimeouts,
        answer: Callable[[Failures], Any],
    ) -> None:
        super().__init__()
        self._answer = answer
        self._failures: Failures = {}
        self._open = set(waits)
        self._timeout_ms = timeout_ms
        self._timeouts = timeouts
        timeouts.watch(self, timeout_ms)
        for place, (partition, offset) in waits.items():
            partition.when_synced(offset, partial(self._settle, place))

    def expire(self) -> None:
        """What is not flushed by now has failed, for whoever waits here."""
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not flushed within {self._timeout_ms} ms")
        for place in tuple(self._open):
            self._settle(place, late)

    def _settle(self, place: int, error: KafkaError | None) -> None:
        if place not in self._open:
            return
        self._open.remove(place)
        if error is not None:
            self._failures[place] = error
        if not self._open:
            self._timeouts.forget(self)
            self.resolve(self._answer(self._failures))
