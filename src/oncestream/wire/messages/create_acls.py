"""CreateAcls (30), versions 1-3."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int8, int16, int32, string, structs


class CreateAclsRequest(Message, api_key=ApiKey.CREATE_ACLS, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = structs()


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsResponse(Message, api_key=ApiKey.CREATE_ACLS, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = structs()


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
