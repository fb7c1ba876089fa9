"""SyncGroup (14), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, binary, int16, int32, string, structs


class SyncGroupRequest(Message, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = structs()


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupResponse(Message, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = binary()
