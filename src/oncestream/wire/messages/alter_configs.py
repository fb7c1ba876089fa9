"""AlterConfigs (33), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, int8, int16, int32, string, structs


class AlterConfigsRequest(Message, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = structs()
    validate_only: bool = boolean()


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = structs()


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResponse(Message, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = structs()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
