"""Committed offsets, and those that wait for the end of their transaction.

Keys and values stay as they lie in the log and are decoded when somebody asks: a million of them must be replayed
in a few seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from oncestream.broker.state_log import StateRecord, Transaction
from oncestream.wire.codec import decode_versioned, encode_versioned
from oncestream.wire.embedded.offset_commit import OffsetCommitValue

OFFSET_KEYS: Final = (b"\x00\x01", b"\x00\x00")  # how keys of offsets begin, today's and the oldest
_KIND: Final = 1
_HEAD: Final = struct.Struct(">hh")
_SIZE: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VALUE_VERSION: Final = 3
_VALUE_VERSION_WITH_EXPIRY: Final = 1


class Committed(NamedTuple):
    """A position of a group in a partition. `expire_ms` -1: expires as the settings say."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1


_Entry = tuple[int, bytes]  # where in the log the commit stands, and its value as it stands there
_Positions = dict[bytes, _Entry]  # by topic and partition, as the key in the log ends


class Offsets:
    """What `replay` and `end_transaction` made of the log."""

    def __init__(self) -> None:
        self._groups: dict[str, _Positions] = {}
        self._pending: dict[Transaction, dict[str, _Positions]] = {}
        self._open: dict[str, set[Transaction]] = {}  # those with pending offsets of a group
        self._last_group: tuple[bytes, str] = (b"", "")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offsets):
            return NotImplemented
        return (self._groups, self._pending, self._open) == (other._groups, other._pending, other._open)

    __hash__ = None  # type: ignore[assignment]

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        entry = self._groups.get(group_id, {}).get(_place(topic, partition))
        return None if entry is None else _decode(entry[1])

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, Committed]]:
        for place, entry in self._groups.get(group_id, {}).items():
            yield *_unplace(place), _decode(entry[1])

    def group_ids(self) -> set[str]:
        return self._groups.keys() | self._open.keys()

    def knows(self, group_id: str) -> bool:
        return group_id in self._groups or group_id in self._open

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction holds a new offset of this partition."""
        place = _place(topic, partition)
        return any(place in self._pending[t].get(group_id, ()) for t in self._open.get(group_id, ()))

    def tombstones(self, group_id: str, topic: str | None = None) -> list[StateRecord]:
        """What deletes all offsets of a group, or of one topic in it, the pending ones included."""
        places = dict.fromkeys(self._groups.get(group_id, ()))
        for transaction in self._open.get(group_id, ()):
            places.update(dict.fromkeys(self._pending[transaction].get(group_id, ())))
        return [
            StateRecord(_head(group_id) + place, None)
            for place in places
            if topic is None or _unplace(place)[0] == topic
        ]

    def replay(self, record: StateRecord, position: int, transaction: Transaction | None) -> None:
        key, value = record
        end = 4 + (key[2] << 8 | key[3])
        encoded, place = key[4:end], key[end:]
        group_id = self._last_group[1]
        if encoded != self._last_group[0]:
            group_id = encoded.decode()
            self._last_group = (encoded, group_id)
        if value is None:
            self._remove(group_id, place)
        elif transaction is None:
            positions = self._groups.get(group_id)
            if positions is None:
                positions = self._groups[group_id] = {}
            positions[place] = (position, value)
        else:
            pending = self._pending.setdefault(transaction, {}).setdefault(group_id, {})
            pending[place] = (position, value)
            self._open.setdefault(group_id, set()).add(transaction)

    def end_transaction(self, transaction: Transaction, commit: bool) -> None:
        for group_id, pending in self._pending.pop(transaction, {}).items():
            still_open = self._open[group_id]
            still_open.discard(transaction)
            if not still_open:
                del self._open[group_id]
            if not commit or not pending:
                continue
            positions = self._groups.setdefault(group_id, {})
            for place, entry in pending.items():
                newest = positions.get(place)
                # The later commit in the log wins; compaction may have moved a plain one past the marker.
                if newest is None or newest[0] < entry[0]:
                    positions[place] = entry

    def _remove(self, group_id: str, place: bytes) -> None:
        positions = self._groups.get(group_id)
        if positions is not None and positions.pop(place, None) is not None and not positions:
            del self._groups[group_id]
        for transaction in self._open.get(group_id, ()):
            self._pending[transaction].get(group_id, {}).pop(place, None)


def commit_record(group_id: str, topic: str, partition: int, committed: Committed) -> StateRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
    )
    version = _VALUE_VERSION if committed.expire_ms < 0 else _VALUE_VERSION_WITH_EXPIRY
    return StateRecord(_head(group_id) + _place(topic, partition), encode_versioned(value, version))


def tombstone(group_id: str, topic: str, partition: int) -> StateRecord:
    return StateRecord(_head(group_id) + _place(topic, partition), None)


def _head(group_id: str) -> bytes:
    encoded = group_id.encode()
    return _HEAD.pack(_KIND, len(encoded)) + encoded


def _place(topic: str, partition: int) -> bytes:
    encoded = topic.encode()
    return _SIZE.pack(len(encoded)) + encoded + _PARTITION.pack(partition)


def _unplace(place: bytes) -> tuple[str, int]:
    return place[_SIZE.size : -_PARTITION.size].decode(), _PARTITION.unpack(place[-_PARTITION.size :])[0]


def _decode(value: bytes) -> Committed:
    found = decode_versioned(OffsetCommitValue, value)
    return Committed(
        found.offset, found.leader_epoch, found.metadata, found.commit_timestamp, found.expire_timestamp
    )
