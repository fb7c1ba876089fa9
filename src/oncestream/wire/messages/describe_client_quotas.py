"""DescribeClientQuotas (48), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, float64, int8, int16, int32, string, structs


class DescribeClientQuotasRequest(
    Message, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    components: list[ComponentData] = structs()
    strict: bool = boolean()


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


class DescribeClientQuotasResponse(
    Message, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[EntryData] | None = structs(nullable="0+")


class EntryData(Struct):
    entity: list[EntityData] = structs()
    values: list[ValueData] = structs()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ValueData(Struct):
    key: str = string()
    value: float = float64()
