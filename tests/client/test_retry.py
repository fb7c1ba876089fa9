"""The retry policy, on a clock that the test drives."""

from __future__ import annotations

import itertools

import pytest

from oncestream.client.failures import ConnectionLost, ErrorAnswer
from oncestream.client.retry import LONGEST_PAUSE_S, UNKNOWN_TOPIC_S, Retry, until_done
from oncestream.errors import (
    BrokerUnreachable,
    NotAuthorized,
    ProducerFenced,
    RequestRefused,
    RequestTimedOut,
    UnknownTopic,
)
from oncestream.wire.error_codes import ErrorCode, KafkaError


class FakeTime:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses_s.append(seconds)

    def retry(self, timeout_s: float, chance: float = 0.5) -> Retry:
        return Retry(timeout_s, clock=self.clock, sleep=self.sleep, chance=lambda: chance)


def test_pauses_grow_up_to_a_limit_and_end_at_the_deadline() -> None:
    time = FakeTime()
    retry = time.retry(10)
    while retry.pause():
        pass
    pauses = time.pauses_s[:-1]
    assert all(earlier <= later for earlier, later in itertools.pairwise(pauses))
    assert pauses[1] == 2 * pauses[0]
    assert max(pauses) == LONGEST_PAUSE_S
    assert time.now_s == pytest.approx(10)


def test_pauses_are_spread_by_chance() -> None:
    low, high = FakeTime(), FakeTime()
    low.retry(10, chance=0.0).pause()
    high.retry(10, chance=1.0).pause()
    assert low.pauses_s[0] < high.pauses_s[0]


def test_what_may_pass_is_tried_again_until_it_succeeds() -> None:
    outcomes = iter([ConnectionLost("a:1", "gone"), ErrorAnswer(ErrorCode.NOT_COORDINATOR, "g"), None])

    def attempt() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "done"

    assert until_done(attempt, FakeTime().retry(10), "X") == "done"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorAnswer(ErrorCode.INVALID_PRODUCER_EPOCH, "tx"), ProducerFenced),
        (ErrorAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t"), NotAuthorized),
        (ErrorAnswer(ErrorCode.INVALID_CONFIG, "t", "no"), RequestRefused),
        (ErrorAnswer(999, "t", "no"), RequestRefused),
    ],
)
def test_what_cannot_pass_is_raised_at_once(error: KafkaError, expected: type[Exception]) -> None:
    time = FakeTime()
    with pytest.raises(expected):
        until_done(lambda: _raise(error), time.retry(10), "X")
    assert time.pauses_s == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "g"), RequestTimedOut),
        (ConnectionLost("a:1", "refused"), BrokerUnreachable),
    ],
)
def test_the_deadline_ends_the_attempts(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        until_done(lambda: _raise(error), FakeTime().retry(10), "X")


def test_a_topic_that_stays_unknown_is_given_up_before_the_deadline() -> None:
    time = FakeTime()
    with pytest.raises(UnknownTopic, match="lost-topic"):
        until_done(lambda: _raise(ErrorAnswer(3, "lost-topic")), time.retry(1000), "X")
    assert UNKNOWN_TOPIC_S < time.now_s < 1000


def _raise(error: Exception) -> None:
    raise error
