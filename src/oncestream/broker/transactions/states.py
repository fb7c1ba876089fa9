"""All transactional ids, as the log has them: the one place where durable state changes."""

from __future__ import annotations

from collections.abc import Iterator

from oncestream.broker.state_log import StateLog, StateRecord
from oncestream.broker.state_log import Transaction as LogTransaction
from oncestream.broker.transactions.record import decode_id, decode_transaction
from oncestream.broker.transactions.state import Transaction


class States:
    """What `replay` made of the log."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}

    def __eq__(self, other: object) -> bool:
        return self._by_id == other._by_id if isinstance(other, States) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._by_id.get(transactional_id)

    def replay(self, record: StateRecord) -> None:
        transactional_id = decode_id(record)
        if transactional_id is None:
            return
        if record.value is None:
            self.forget(transactional_id)
        else:
            self.put(decode_transaction(transactional_id, record.value))

    def put(self, txn: Transaction) -> None:
        self._by_id[txn.id] = txn

    def forget(self, transactional_id: str) -> None:
        self._by_id.pop(transactional_id, None)


def load(log: StateLog) -> States:
    """The state the log ends with. Only the last record of an id is decoded."""
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
        raise AssertionError(f"a marker in the transaction log: {transaction} {commit}")
