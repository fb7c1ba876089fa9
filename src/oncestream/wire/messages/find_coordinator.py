"""FindCoordinator (10), versions 0-6."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int8, int16, int32, string, structs


class FindCoordinatorRequest(Message, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class FindCoordinatorResponse(Message, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = structs("4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="4+")
