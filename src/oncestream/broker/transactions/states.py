"""All transactional ids, as the log has them: the one place where durable state changes.

What was loaded stays as it lies in the log until somebody asks: a broker with a hundred thousand ids, nearly all of
them idle, must start in a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncestream.broker.state_log import StateLog, StateRecord
from oncestream.broker.state_log import Transaction as LogTransaction
from oncestream.broker.transactions.record import decode_id, decode_transaction
from oncestream.broker.transactions.state import State, Transaction

_STATE_POSITION: Final = 16  # in every version of the value
_IDLE: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class States:
    """What `replay` made of the log."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction | bytes] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, States):
            return NotImplemented
        return {txn.id: txn for txn in self} == {txn.id: txn for txn in other}

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Transaction]:
        return (txn for txn in map(self.get, list(self._by_id)) if txn is not None)

    def get(self, transactional_id: str) -> Transaction | None:
        found = self._by_id.get(transactional_id)
        if isinstance(found, bytes):
            found = self._by_id[transactional_id] = decode_transaction(transactional_id, found)
        return found

    def busy(self) -> list[Transaction]:
        """Those whose transaction is open, or ending."""
        ids = [
            transactional_id
            for transactional_id, found in self._by_id.items()
            if (found[_STATE_POSITION] if isinstance(found, bytes) else found.state) not in _IDLE
        ]
        return [txn for txn in map(self.get, ids) if txn is not None]

    def replay(self, record: StateRecord) -> None:
        transactional_id = decode_id(record)
        if transactional_id is None:
            return
        if record.value is None:
            self.forget(transactional_id)
        else:
            self._by_id[transactional_id] = record.value

    def put(self, txn: Transaction) -> None:
        self._by_id[txn.id] = txn

    def forget(self, transactional_id: str) -> None:
        self._by_id.pop(transactional_id, None)


def load(log: StateLog) -> States:
    """The state the log ends with."""
    newest = _Newest()
    log.replay(newest)
    states = States()
    for key, value in newest.values.items():
        states.replay(StateRecord(key, value))
    return states


class _Newest:
    """The last value of every key."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}

    def replay(self, record: StateRecord, offset: int, transaction: LogTransaction | None) -> None:  # noqa: ARG002
        self.values[record.key] = record.value

    def end_transaction(self, transaction: LogTransaction, commit: bool) -> None:
        """Nothing in this log is written in a transaction: a marker forced on it ends none."""
