"""A classic group and its members, as a record of __consumer_offsets."""

from __future__ import annotations

from oncestream.wire.schema import Message, Struct, binary, int32, int64, string, structs


class GroupMetadataKey(Message, api_key=2, versions="0", flexible="none"):
    group: str = string()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = structs()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()
