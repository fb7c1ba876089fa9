"""Keys of records in the coordinators' logs: two bytes that name the kind of record, then its fields."""

from __future__ import annotations

import struct
from typing import Final

from oncestream.wire.codec import DecodeError, decode, encode_into
from oncestream.wire.embedded import consumer_group
from oncestream.wire.embedded.group_metadata import GroupMetadataKey
from oncestream.wire.embedded.offset_commit import OffsetCommitKey
from oncestream.wire.embedded.transaction_log import TransactionLogKey
from oncestream.wire.schema import Buffer, Message

_KIND: Final = struct.Struct(">h")
_LEGACY_OFFSET_COMMIT: Final = 0

_GROUP_KEYS: Final[dict[int, type[Message]]] = {
    _LEGACY_OFFSET_COMMIT: OffsetCommitKey,
    **{
        key.__api_key__: key
        for key in (
            OffsetCommitKey,
            GroupMetadataKey,
            consumer_group.ConsumerGroupMetadataKey,
            consumer_group.ConsumerGroupPartitionMetadataKey,
            consumer_group.ConsumerGroupMemberMetadataKey,
            consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
            consumer_group.ConsumerGroupTargetAssignmentMemberKey,
            consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
            consumer_group.ConsumerGroupRegularExpressionKey,
        )
    },
}


def encode_key(key: Message) -> bytes:
    """The bytes of a key; its value goes through `codec.encode_versioned`."""
    out = bytearray(_KIND.pack(key.__api_key__))
    encode_into(key, 0, out)
    return bytes(out)


def decode_group_key(buffer: Buffer) -> Message | None:
    """The key of a record of __consumer_offsets, None for a kind we do not keep."""
    cls = _GROUP_KEYS.get(_kind(buffer))
    return None if cls is None else decode(cls, buffer, 0, _KIND.size)


def decode_transaction_key(buffer: Buffer) -> TransactionLogKey | None:
    """The key of a record of __transaction_state, None for a kind we do not keep."""
    if _kind(buffer) != TransactionLogKey.__api_key__:
        return None
    return decode(TransactionLogKey, buffer, 0, _KIND.size)


def _kind(buffer: Buffer) -> int:
    if len(buffer) < _KIND.size:
        raise DecodeError(f"coordinator record key of {len(buffer)} bytes")
    kind: int = _KIND.unpack_from(buffer)[0]
    return kind
