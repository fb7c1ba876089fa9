"""ListConfigResources (74), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int8, int16, int32, string, structs


class ListConfigResourcesRequest(
    Message, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    resource_types: list[int] = array(int8, "1+")


class ListConfigResourcesResponse(
    Message, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = structs()


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)
