"""AlterClientQuotas (49), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, float64, int16, int32, string, structs


class AlterClientQuotasRequest(Message, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    entries: list[RequestEntryData] = structs()
    validate_only: bool = boolean()


class RequestEntryData(Struct):
    entity: list[RequestEntityData] = structs()
    ops: list[OpData] = structs()


class RequestEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasResponse(Message, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[ResponseEntryData] = structs()


class ResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[ResponseEntityData] = structs()


class ResponseEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")
