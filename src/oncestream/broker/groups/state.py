"""What the log of groups says: the one place where durable state changes, at start-up and in normal running."""

from __future__ import annotations

from oncestream.broker.groups import consumer_records
from oncestream.broker.groups.consumer_group import ConsumerGroup
from oncestream.broker.groups.offsets import OFFSET_KEYS, Offsets
from oncestream.broker.state_log import StateRecord, Transaction
from oncestream.wire.codec import decode_versioned
from oncestream.wire.embedded.coordinator_keys import decode_group_key
from oncestream.wire.embedded.group_metadata import GroupMetadataKey, GroupMetadataValue


class DurableState:
    """Groups and offsets as of the last record."""

    def __init__(self) -> None:
        self.classic: dict[str, GroupMetadataValue] = {}  # the last generation written
        self.consumer: dict[str, ConsumerGroup] = {}
        self.offsets = Offsets()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DurableState):
            return NotImplemented
        return (self.classic, self.consumer, self.offsets) == (other.classic, other.consumer, other.offsets)

    __hash__ = None  # type: ignore[assignment]

    def replay(self, record: StateRecord, offset: int, transaction: Transaction | None) -> None:
        if record[0].startswith(OFFSET_KEYS):
            self.offsets.replay(record, offset, transaction)
            return
        key = decode_group_key(record.key)
        if isinstance(key, GroupMetadataKey):
            self._replay_classic(key.group, record.value)
        elif key is not None:
            consumer_records.replay(self.consumer, key, record.value)

    def end_transaction(self, transaction: Transaction, commit: bool) -> None:
        self.offsets.end_transaction(transaction, commit)

    def _replay_classic(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.classic.pop(group_id, None)
        else:
            self.classic[group_id] = decode_versioned(GroupMetadataValue, value)
