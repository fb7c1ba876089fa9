"""What librdkafka reports, as errors of this package."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException

from oncestream.client.failures import advice
from oncestream.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    NotAuthorized,
    OncestreamError,
    ProducerFenced,
    RebalancedMeanwhile,
    RequestRefused,
    RequestTimedOut,
    UnknownTopic,
)

T = TypeVar("T")

log: Final = logging.getLogger(__name__)

# The package does not name all of its codes in the eyes of mypy.
KafkaError: Any = confluent_kafka.KafkaError

FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
REBALANCED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
    }
)
UNKNOWN: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_LOGIN: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
)
AWAY: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
FOLLOWS_FATAL: Final = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
FATAL_TOLD_S: Final = 5.0
# confluent-kafka waits longer in pieces, and between two of them it loses the exception of a fatal error.
WAIT_S_MAX: Final = 0.15
LATE: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
OUTAGE_S: Final = 60.0  # a broker that was not missed for so long is missed anew


class Faults:
    """Reads errors for one producer or consumer, and remembers those after which nothing works any more."""

    def __init__(self, servers: str, mechanism: str) -> None:
        self._servers, self._mechanism = servers, mechanism
        self._fatal: Any = None
        self._missed_at: float | None = None
        self._login: OncestreamError | None = None

    def notice(self, error: Any) -> None:
        """librdkafka's error_cb: what belongs to no call of ours."""
        if error.fatal():
            self._fatal = error
        elif error.code() in NO_LOGIN:
            self._login = self.of(error, "login", self._servers)
        elif error.code() in AWAY:
            self._tell_outage(error)
        else:
            log.debug("%s: %s", self._servers, error.str())  # librdkafka goes on by itself

    def _tell_outage(self, error: Any) -> None:
        """Once, however often librdkafka tries in vain to connect."""
        now = time.monotonic()
        if self._missed_at is None or now - self._missed_at > OUTAGE_S:
            log.warning("%s does not answer, and is tried again and again: %s", self._servers, error.str())
        self._missed_at = now

    def raise_login(self) -> None:
        """A login that was refused is tried again by librdkafka for good; the user must know."""
        if self._login is not None:
            refused, self._login = self._login, None
            raise refused

    def served(self, call: Callable[[], T]) -> T:
        """A call that runs callbacks. In front of them confluent-kafka may leave behind, and lose, the exception
        of a fatal error, so that the call fails in Python itself; once more, and it tells what was wrong.
        """
        try:
            return call()
        except SystemError as error:
            self._learn_fatal(error)
            return call()

    def clear(self, call: Callable[[], object]) -> None:
        """In a callback, before anything else: the exception that was left behind comes out of the first call."""
        try:
            call()
        except SystemError as error:
            self._learn_fatal(error)

    def waited(self, wait: Callable[[float], T], timeout_s: float) -> T:
        """A poll or flush of so many seconds, but of no more than WAIT_S_MAX.

        A fatal error comes out of it once; it is told with whatever fails because of it.
        """
        try:
            return self.served(lambda: wait(min(timeout_s, WAIT_S_MAX)))
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._fatal = error.args[0]
            return self.served(lambda: wait(0))

    def await_fatal(
        self, error: Any, poll: Callable[[float], object], timeout_s: float = FATAL_TOLD_S
    ) -> None:
        """Where records were thrown away, or refused: librdkafka may tell that before it tells why."""
        deadline = time.monotonic() + timeout_s
        while error.code() in FOLLOWS_FATAL and self._fatal is None and time.monotonic() < deadline:
            self.waited(poll, WAIT_S_MAX)

    def of(self, error: Any, action: str, subject: str, timeout_s: float = 0) -> OncestreamError:
        """The error to raise for what `action` on `subject` (a topic, group or id) met."""
        if error.fatal():
            self._fatal = error
        if error.code() in FOLLOWS_FATAL and self._fatal is not None:
            error = self._fatal
        code = error.code()
        if code in FENCED:
            return ProducerFenced(subject=subject, api=action)
        if code in REBALANCED:
            return RebalancedMeanwhile(group=subject, reason=error.name())
        if code in UNKNOWN:
            return UnknownTopic(topic=subject)
        if code in NOT_ALLOWED:
            return NotAuthorized(api=action, subject=subject, code=error.name())
        if code in NO_LOGIN:
            return AuthenticationFailed(address=self._servers, mechanism=self._mechanism, reason=error.str())
        if code in AWAY:
            return BrokerUnreachable(address=self._servers, timeout_s=round(timeout_s, 1), reason=error.str())
        if code in LATE:
            if self._login is not None:
                return self._login
            return RequestTimedOut(api=action, timeout_s=round(timeout_s, 1), reason=error.str())
        return RequestRefused(api=action, code=error.name(), message=error.str(), advice=advice(code))

    @contextmanager
    def translated(self, action: str, subject: str, timeout_s: float = 0) -> Iterator[None]:
        """Raises what librdkafka raises as an error of this package."""
        try:
            yield
        except KafkaException as error:
            raise self.of(error.args[0], action, subject, timeout_s) from error

    def _learn_fatal(self, error: SystemError) -> None:
        if isinstance(error.__cause__, KafkaException):
            self._fatal = error.__cause__.args[0]
