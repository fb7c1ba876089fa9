"""The transaction log and what it says: every change is appended, then in force, then, told by a callback, durable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oncestream.broker.state_log import StateLog, StateRecord
from oncestream.broker.topic_names import TRANSACTIONS_TOPIC
from oncestream.broker.transactions.record import encode_transaction, tombstone
from oncestream.broker.transactions.state import Transaction
from oncestream.broker.transactions.states import load
from oncestream.storage.room import DiskFull
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node

logger = logging.getLogger("oncestream.broker")

_TOLD: Final = {  # what a client can do something about, as Apache Kafka tells it
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

Written = Callable[[KafkaError | None], None]


class Ledger:
    """Transactional ids, on disk and in memory."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._log = StateLog(node, TRANSACTIONS_TOPIC, node.settings.transaction_partitions)
        self._undurable: dict[
            str, int
        ] = {}  # where in the log the last record of an id ends, until it is durable
        self._failed: set[int] = set()  # partitions that failed for good, and of which that was logged
        self.states = load(self._log)

    def put(self, txn: Transaction) -> None:
        """In force from now on; see `when_durable`."""
        self._append(txn.id, encode_transaction(txn))
        self.states.put(txn)

    def write(self, txn: Transaction, then: Written) -> None:
        """As `put`; calls back when it is durable, or failed."""
        try:
            self.put(txn)
        except KafkaError as error:
            then(error)
        else:
            self.when_durable(txn.id, then)

    def forget(self, transactional_id: str) -> None:
        self._append(transactional_id, tombstone(transactional_id))
        self.states.forget(transactional_id)

    def when_durable(self, transactional_id: str, callback: Written) -> None:
        """Calls back when all that was put about the id so far is durable; at once if it is."""
        end_offset = self._undurable.get(transactional_id)
        if end_offset is None:
            callback(None)
            return

        def synced(error: KafkaError | None) -> None:
            if error is None and self._undurable.get(transactional_id) == end_offset:
                del self._undurable[transactional_id]
            callback(None if error is None else _told(error))

        partition = self._node.partition(TRANSACTIONS_TOPIC, self._log.partition_of(transactional_id))
        assert partition is not None
        partition.when_synced(end_offset, synced)

    def _append(self, transactional_id: str, record: StateRecord) -> None:
        index = self._log.partition_of(transactional_id)
        try:
            appended = self._log.append(index, [record], self._node.clock.now_ms())
        except KafkaError as error:
            if not isinstance(error, DiskFull) and index not in self._failed:
                self._failed.add(index)
                logger.error("transaction log failed partition=%d: %s", index, error)
            raise _told(error) from error
        self._undurable[transactional_id] = appended.last_offset + 1


def _told(error: KafkaError) -> KafkaError:
    return KafkaError(_TOLD.get(error.code, error.code), error.message)
