"""Heartbeat (12), versions 0-4."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, int16, int32, string


class HeartbeatRequest(Message, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
