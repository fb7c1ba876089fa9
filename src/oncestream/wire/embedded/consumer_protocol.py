"""What consumers of a classic group tell each other through it."""

from __future__ import annotations

from oncestream.wire.codec import decode_versioned
from oncestream.wire.schema import Buffer, Message, Struct, array, binary, int32, string, structs


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[str] = array(string)
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = structs("1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[TopicPartition] = structs()
    user_data: bytes | None = binary(nullable="0+", default=None)


def decode_subscription(buffer: Buffer) -> ConsumerProtocolSubscription:
    """A member's subscription; one newer than we know is read as the newest that we know."""
    return decode_versioned(ConsumerProtocolSubscription, buffer, allow_newer=True)


def decode_assignment(buffer: Buffer) -> ConsumerProtocolAssignment:
    """A member's assignment; one newer than we know is read as the newest that we know."""
    return decode_versioned(ConsumerProtocolAssignment, buffer, allow_newer=True)
