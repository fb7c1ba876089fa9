"""The transactions of one producer: begun, then committed or aborted; an outcome is found out, never guessed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from oncestream.errors import ClientMisused, CommitUnknown, OncestreamError, ProducerFenced
from oncestream.messaging.failures import Faults

if TYPE_CHECKING:
    from oncestream.messaging.consumer import Consumer

TIMEOUT_S: Final = 60.0
STEP_S: Final = 1.0

log: Final = logging.getLogger(__name__)


class State(Enum):
    """READY -> OPEN -> READY; UNSETTLED while a commit's outcome, UNABORTED while an abort is outstanding."""

    READY = "between transactions"
    OPEN = "in a transaction"
    UNSETTLED = "the outcome of the last commit is not known"
    UNABORTED = "the last transaction is still being aborted"
    OVER = "fenced"


class Transactions:
    """Over librdkafka's transactional producer. For one thread."""

    def __init__(self, client: Any, transactional_id: str, faults: Faults) -> None:
        self._client = client
        self._id = transactional_id
        self._faults = faults
        self._state = State.READY
        self._over: OncestreamError | None = None
        self._doomed: OncestreamError | None = None
        # Those whose offsets this producer commits: an abort takes them back to where they were.
        self._consumers: dict[Consumer, None] = {}
        self._sent_offsets: dict[Consumer, dict[Any, int]] = {}
        self._call("init_transactions", self._initialize)

    def begin(self, consumer: Consumer | None) -> None:
        if self._state is State.UNABORTED:
            self._abort()
        self._require(State.READY, "a transaction")
        if consumer is not None:
            self._learn(consumer)
        self._sent_offsets.clear()
        self._doomed = None
        self._call("begin_transaction", self._client.begin_transaction)
        self._state = State.OPEN

    def require_open(self, what: str) -> None:
        self._require(State.OPEN, what)

    def commit_offsets(self, consumer: Consumer, timeout_s: float = TIMEOUT_S) -> None:
        """Adds where the consumer stands to the transaction; RebalancedMeanwhile dooms it."""
        self._require(State.OPEN, "commit_offsets")
        self._learn(consumer)
        try:
            reading = consumer.transaction_offsets()
            if reading is None:
                return
            self._call(
                "send_offsets_to_transaction",
                lambda: self._client.send_offsets_to_transaction(
                    reading.as_kafka(), reading.metadata, timeout_s
                ),
                subject=consumer.group,
            )
        except OncestreamError as error:
            self._doomed = error
            raise
        self._sent_offsets[consumer] = reading.offsets

    def commit(self, consumer: Consumer | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Ends the open transaction. CommitUnknown only where no broker could tell in time."""
        if consumer is not None:
            try:
                self.commit_offsets(consumer, timeout_s)
            except OncestreamError as error:
                self.abort(error)
                raise
        if self._doomed is not None:
            doomed = self._doomed
            self.abort(doomed)
            raise doomed
        self._require(State.OPEN, "commit")
        self._commit(timeout_s)

    def abort(self, reason: BaseException) -> None:
        """After an error in the transaction, which is the one the user sees."""
        if self._state is not State.OPEN:
            return
        try:
            self._abort()
        except OncestreamError as error:
            reason.add_note(f"and the transaction could not be aborted at once: {error}")
        finally:
            for consumer in self._consumers:
                consumer.rewind()

    def settle(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the transaction of the last CommitUnknown was committed; asks until it is known."""
        if self._state is not State.UNSETTLED:
            raise ClientMisused(what="settle", reason="no commit has an unknown outcome")
        try:
            self._commit(timeout_s)
        except (CommitUnknown, ProducerFenced):
            raise
        except OncestreamError as error:
            log.warning("the transaction of %s was aborted: %s", self._id, error)
            return False
        return True

    def _commit(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                left_s = max(0.1, deadline - time.monotonic())
                self._faults.served(partial(self._client.commit_transaction, left_s))
                break
            except KafkaException as raised:
                error = raised.args[0]
                failed = self._faults.of(error, "commit_transaction", self._id, timeout_s)
                if error.fatal():
                    self._end(failed)
                    raise failed from raised
                if error.txn_requires_abort():
                    self._state = State.OPEN
                    self.abort(failed)
                    raise failed from raised
                self._state = State.UNSETTLED
                if not error.retriable() or time.monotonic() >= deadline:
                    raise CommitUnknown(
                        transactional_id=self._id,
                        reason=f"{failed.cause_text}; settle() asks again",
                    ) from raised
        self._state = State.READY
        for consumer, offsets in self._sent_offsets.items():
            consumer.was_committed(offsets)

    def _initialize(self) -> None:
        try:
            self._client.init_transactions(STEP_S)
        except KafkaException:
            # Only so does librdkafka tell of a login that was refused.
            self._faults.served(lambda: self._client.poll(0))
            self._faults.raise_login()
            raise

    def _abort(self) -> None:
        self._state = State.UNABORTED
        self._call("abort_transaction", lambda: self._client.abort_transaction(TIMEOUT_S))
        self._state = State.READY

    def _call(self, action: str, call: Callable[[], object], subject: str | None = None) -> None:
        """Once more, as long as librdkafka says that it may help and time is left."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._faults.served(call)
                return
            except KafkaException as raised:
                error = raised.args[0]
                failed = self._faults.of(error, action, subject or self._id, TIMEOUT_S)
                if error.fatal():
                    self._end(failed)
                elif error.retriable() and time.monotonic() < deadline:
                    continue
                raise failed from raised

    def _end(self, error: OncestreamError) -> None:
        self._state, self._over = State.OVER, error

    def _learn(self, consumer: Consumer) -> None:
        if consumer.commits_itself:
            raise ClientMisused(what="commit_offsets", reason="the consumer must have commit='manual'")
        self._consumers[consumer] = None

    def _require(self, needed: State, what: str) -> None:
        if self._over is not None:
            raise self._over
        if self._state is State.UNSETTLED:
            raise CommitUnknown(transactional_id=self._id, reason="settle() was not called since")
        if self._state is not needed:
            raise ClientMisused(what=what, reason=f"this producer is {self._state.value}")
