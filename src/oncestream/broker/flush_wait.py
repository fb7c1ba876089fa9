"""An answer that waits until what was appended is as durable as the settings promise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from oncestream.broker.later import Later
from oncestream.broker.partition import Partition
from oncestream.wire.error_codes import ErrorCode, KafkaError

Failures = Mapping[int, KafkaError]


class FlushWait(Later):
    """Resolved with what `answer` makes of the failures, which are known by their place in `waits`."""

    __slots__ = ("_answer", "_failures", "_open", "_timer")

    def __init__(
        self,
        waits: Sequence[tuple[Partition, int]],
        timeout_ms: int,
        loop: asyncio.AbstractEventLoop,
        answer: Callable[[Failures], Any],
    ) -> None:
        super().__init__()
        self._answer = answer
        self._failures: dict[int, KafkaError] = {}
        self._open = set(range(len(waits)))
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._expire, timeout_ms)
        for place, (partition, offset) in enumerate(waits):
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

    def _expire(self, timeout_ms: int) -> None:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not flushed within {timeout_ms} ms")
        for place in tuple(self._open):
            self._settle(place, late)
