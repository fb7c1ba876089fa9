"""JoinGroup (11), versions 0-9."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, binary, boolean, int16, int32, string, structs


class JoinGroupRequest(Message, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = structs()
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupResponse(Message, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = structs()


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = binary()
