"""DeleteAcls (31), versions 1-3."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int8, int16, int32, string, structs


class DeleteAclsRequest(Message, api_key=ApiKey.DELETE_ACLS, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = structs()


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="1+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="1+")
    host_filter: str | None = string(nullable="1+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsResponse(Message, api_key=ApiKey.DELETE_ACLS, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = structs()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    matching_acls: list[DeleteAclsMatchingAcl] = structs()


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()
