"""LeaveGroup (13), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, string, structs


class LeaveGroupRequest(Message, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = structs("3+")


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


class LeaveGroupResponse(Message, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = structs("3+")


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: int = int16()
