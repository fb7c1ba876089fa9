"""The transaction coordinator: writes what the rules decide, waits until it is durable, answers, writes markers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.carry_out import CarryOut
from oncestream.broker.transactions.end import complete, end, fence
from oncestream.broker.transactions.expiry import Expiry
from oncestream.broker.transactions.flush import when_flushed
from oncestream.broker.transactions.initialize import first_seen, initialize
from oncestream.broker.transactions.join import join, verify
from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.recovery import owed, reconcile
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, State, TopicPartition, Transaction
from oncestream.broker.transactions.timeouts import Timeouts
from oncestream.broker.transactions.waits import Waits
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

logger = logging.getLogger("oncestream.broker")

BUSY_MS: Final = 1_000

Tell = Callable[[Transaction | KafkaError], None]


class TransactionCoordinator:
    """All transactional ids of the broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = node.clock
        self.ledger = Ledger(node)
        self.states = self.ledger.states
        self._flushing: set[str] = set()  # their data go to the disk before the end is decided
        self.waits = Waits(node.loop)
        self.timeouts = Timeouts(node.loop, node.clock, self._on_due)
        self._carry_out = CarryOut(node, self.ledger, self.waits, self._adopt_soon)
        self._orphans = dict(reconcile(node, self.states, self._carry_out.again))
        self._recover()
        self._expiry = Expiry(node, self.ledger)

    def close(self) -> None:
        self.waits.close()
        self.timeouts.close()
        self._carry_out.close()
        self._expiry.close()

    # -- what clients ask for -----------------------------------------------------------------

    def initialize(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, tell: Tell
    ) -> None:
        """A producer id and epoch; everybody who used the id before is fenced, what they left open aborted."""

        def work() -> None:
            self._initialize(transactional_id, timeout_ms, expected, tell, work)

        if not transactional_id:
            tell(KafkaError(ErrorCode.INVALID_REQUEST))
        elif not 0 < timeout_ms <= self._node.settings.transaction_timeout_ms_max:
            tell(KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        else:
            self._try(transactional_id, work, tell)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
        tell: Tell,
    ) -> None:
        """Makes partitions part of the transaction; the first ones open it."""

        def work() -> None:
            txn = self.join(transactional_id, producer, partitions, client_version)
            self.ledger.when_durable(transactional_id, lambda error: tell(error or txn))

        self._try(transactional_id, work, tell)

    def end(
        self, transactional_id: str, producer: Producer, commit: bool, client_version: int, tell: Tell
    ) -> None:
        """Commits or aborts. Told, with who goes on, when the decision is durable; the markers follow."""

        def work() -> None:
            self._check_not_flushing(transactional_id)
            self._adopt(transactional_id)
            txn = self._find(transactional_id)
            ended = end(
                txn,
                producer,
                commit,
                self._clock.now_ms(),
                client_version=client_version,
                new_producer_id=self._node.new_producer_id,
            )
            if ended is txn:
                self.ledger.when_durable(transactional_id, lambda error: tell(error or txn))
            elif commit:
                self._commit(ended, tell)
            else:
                self._decide(ended, tell)

        self._try(transactional_id, work, tell)

    # -- what writers of data ask for ---------------------------------------------------------

    def join(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
    ) -> Transaction:
        """As `add`, but at once: see `ledger.when_durable`. CONCURRENT_TRANSACTIONS: see `when_settled`."""
        txn = self._find(transactional_id)
        self._check_not_flushing(transactional_id)
        joined = join(txn, producer, partitions, client_version, self._clock.now_ms())
        if joined is not txn:
            self.ledger.put(joined)
            if txn.state is not State.ONGOING:
                self.timeouts.watch(transactional_id, joined.timeout_ms)
        return joined

    def verify(self, transactional_id: str, producer: Producer) -> frozenset[TopicPartition]:
        """The partitions that are in the transaction of this producer."""
        self._check_not_flushing(transactional_id)
        return verify(self._find(transactional_id), producer)

    def when_settled(
        self, transactional_id: str, resume: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        """Calls back when the transaction that is ending has ended, or gives up after a while."""
        if self._is_ending(transactional_id):
            self.waits.add(transactional_id, resume, give_up)
        else:
            resume()

    # -- steps --------------------------------------------------------------------------------

    def _try(self, transactional_id: str, work: Callable[[], None], tell: Tell) -> None:
        """Does the work; where a transaction is in the way that is just ending, after it."""
        try:
            work()
        except KafkaError as error:
            if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
                self.waits.add(
                    transactional_id,
                    lambda: self._try(transactional_id, work, tell),
                    lambda error=error: tell(error),  # type: ignore[misc]
                )
            else:
                tell(error)

    def _initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        tell: Tell,
        again: Callable[[], None],
    ) -> None:
        self._check_not_flushing(transactional_id)
        self._adopt(transactional_id)
        now_ms = self._clock.now_ms()
        txn = self.states.get(transactional_id)
        if txn is None:
            made = first_seen(transactional_id, self._node.new_producer_id(), timeout_ms, now_ms)
        else:
            made = initialize(
                txn,
                timeout_ms,
                expected,
                now_ms,
                server_version=self._node.transaction_version,
                new_producer_id=self._node.new_producer_id,
            )

        def aborted(outcome: Transaction | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                tell(outcome)
                return
            concurrent = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            self.waits.add(
                transactional_id, lambda: self._try(transactional_id, again, tell), lambda: tell(concurrent)
            )

        if made.state is State.PREPARE_ABORT:
            self._decide(made, aborted)
        else:
            self.ledger.write(made, lambda error: tell(error or made))

    def _commit(self, ended: Transaction, tell: Tell) -> None:
        def flushed(error: KafkaError | None) -> None:
            self._flushing.discard(ended.id)
            if error is None:
                self._decide(ended, tell)
            else:
                tell(error)
                self.waits.settle(ended.id)

        self._flushing.add(ended.id)
        when_flushed(self._node, ended, flushed)

    def _decide(self, ended: Transaction, tell: Tell) -> None:
        """Makes the decision durable, tells it, and carries it out."""

        def written(error: KafkaError | None) -> None:
            if error is not None:
                tell(error)
                self.waits.settle(ended.id)
                return
            tell(complete(ended, ended.updated_ms))
            self._carry_out.start(ended, ended.partitions)

        self.ledger.write(ended, written)

    # -- questions ----------------------------------------------------------------------------

    def _find(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        txn = self.states.get(transactional_id)
        if txn is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return txn

    def _check_not_flushing(self, transactional_id: str) -> None:
        if transactional_id in self._flushing:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _is_ending(self, transactional_id: str) -> bool:
        txn = self.states.get(transactional_id)
        return transactional_id in self._flushing or (txn is not None and txn.state.is_ending)

    # -- time ---------------------------------------------------------------------------------

    def _on_due(self, transactional_id: str) -> int | None:
        """Gives up a transaction that takes too long; whoever wrote in it is fenced."""
        txn = self.states.get(transactional_id)
        if txn is None or txn.state is not State.ONGOING:
            return None
        if transactional_id in self._flushing:
            return BUSY_MS
        try:
            self._adopt(transactional_id)
            fenced = fence(
                self._find(transactional_id),
                self._clock.now_ms(),
                server_version=self._node.transaction_version,
                new_producer_id=self._node.new_producer_id,
            )
        except KafkaError:
            return BUSY_MS

        def told(outcome: Transaction | KafkaError) -> None:
            if isinstance(outcome, KafkaError):
                self.timeouts.watch(transactional_id, BUSY_MS)
                return
            logger.info(
                "transaction timed out transactional_id=%s producer_id=%d epoch=%d timeout_ms=%d",
                *(transactional_id, txn.producer_id, txn.epoch, txn.timeout_ms),
            )

        self._decide(fenced, told)
        return None

    # -- start-up -----------------------------------------------------------------------------

    def _recover(self) -> None:
        for txn in self.states.busy():
            if txn.state is State.ONGOING:
                # Where the clock was set back meanwhile: no more than all of its time.
                left_ms = min(txn.due_ms - self._clock.now_ms(), txn.timeout_ms)
                self.timeouts.watch(txn.id, max(left_ms, 0))
                continue
            logger.info("transaction is carried out transactional_id=%s state=%s", txn.id, txn.state.label)
            self._carry_out.start(txn, owed(self._node, txn))
        for transactional_id in list(self._orphans):
            if not self._is_ending(transactional_id):
                self._adopt_soon(transactional_id)

    def _adopt(self, transactional_id: str) -> None:
        """Partitions that were written to before the power was lost, and their joining with it."""
        partitions = self._orphans.get(transactional_id)
        if partitions is not None:
            producer = self._find(transactional_id).producer
            self.join(transactional_id, producer, partitions, VERSION_EPOCH_BUMP)
            del self._orphans[transactional_id]

    def _adopt_soon(self, transactional_id: str) -> None:
        try:
            self._adopt(transactional_id)
        except KafkaError:
            self._carry_out.again(lambda: self._adopt_soon(transactional_id))
