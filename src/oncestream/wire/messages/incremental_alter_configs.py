"""IncrementalAlterConfigs (44), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, int8, int16, int32, string, structs


class IncrementalAlterConfigsRequest(
    Message, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    resources: list[AlterConfigsResource] = structs()
    validate_only: bool = boolean()


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = structs()


class AlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsResponse(
    Message, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = structs()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
