"""DescribeConfigs (32), versions 1-4."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string, structs


class DescribeConfigsRequest(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = structs()
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="1+")


class DescribeConfigsResponse(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = structs()


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = structs()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = structs()
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="3+")


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    source: int = int8()
