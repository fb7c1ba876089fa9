"""An answer that waits until what was appended is as durable as the settings promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from oncestream.broker.later import Later
from oncestream.broker.partition import Partition
from oncestream.wire.error_codes import ErrorCode, KafkaError

Failures = dict[int, KafkaError]


class FlushWait(Later):
    """Resolved with what `answer` makes of the failures, which have the keys of their `waits`."""

    __slots__ = ("_answer", "_failures", "_open", "_timeout_ms", "_timer")

    def __init__(
        self,
        waits: Mapping[int, tuple[Partition, int]],
        timeout_ms: int,
        loop: asyncio.AbstractEventLoop,
        answer: Callable[[Failures], Any],
    ) -> None:
        super().__init__()
        self._answer = answer
        self._failures: Failures = {}
        self._open = set(waits)
        self._timeout_ms = timeout_ms
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._expire)
        for place, (partition, offset) in waits.items():
            partition.when_synced(offset, partial(self._settle, place))

    def _settle(self, place: int, error: KafkaError | None) -> None:
        if place not in self._open:
            return
        self._open.remove(place)
        if error is not None:
            self._failures[place] = error
        if not self._open:
            self._timer.cancel()
            self.resolve(self._answer(self._failures))

    def _expire(self) -> None:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not flushed within {self._timeout_ms} ms")
        for place in tuple(self._open):
            self._settle(place, late)
