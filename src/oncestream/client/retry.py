"""The one retry policy: exponential back-off with jitter, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from oncestream.client.failures import ConnectionLost, gave_up, may_pass, refusal
from oncestream.errors import OncestreamError
from oncestream.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.005
LONGEST_PAUSE_S: Final = 1.0
GROWTH: Final = 2.0
JITTER: Final = 0.2
# A new topic is not known to every broker at once; one that stays unknown for this long does not exist.
UNKNOWN_TOPIC_S: Final = 5.0


class Retry:
    """How long to go on, and how long to wait before the next attempt."""

    def __init__(
        self,
        timeout_s: float,
        *,
        unknown_topic_s: float = UNKNOWN_TOPIC_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.timeout_s = timeout_s
        self._unknown_topic_s = unknown_topic_s
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._started_s = clock()
        self._pause_s = FIRST_PAUSE_S
        self.failures = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started_s

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.timeout_s - self.elapsed_s)

    def pause(self) -> bool:
        """Waits before the next attempt; False where the deadline has passed."""
        if self.remaining_s <= 0:
            return False
        jitter = 1 + JITTER * (2 * self._chance() - 1)
        self._sleep(min(self._pause_s * jitter, self.remaining_s))
        self._pause_s = min(self._pause_s * GROWTH, LONGEST_PAUSE_S)
        return True

    def again_after(self, api: str, error: KafkaError | ConnectionLost) -> None:
        """Waits if the error may pass by itself; else, or after the deadline, raises what to tell the user."""
        self.failures += 1
        if (final := self.verdict(api, error)) is not None or not self.pause():
            raise final or gave_up(api, error, self.timeout_s) from error

    def verdict(self, api: str, error: KafkaError | ConnectionLost) -> OncestreamError | None:
        """What to raise at once; None where another attempt makes sense."""
        if not may_pass(error):
            assert isinstance(error, KafkaError)
            return refusal(api, error)
        unknown = isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if unknown and self.elapsed_s > self._unknown_topic_s:
            return gave_up(api, error, self.timeout_s)
        return None


def until_done(attempt: Callable[[], T], retry: Retry, api: str) -> T:
    """The result of `attempt`, which is made again while it fails in a way that may pass."""
    while True:
        try:
            return attempt()
        except (KafkaError, ConnectionLost) as error:
            retry.again_after(api, error)
