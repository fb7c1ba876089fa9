"""DeleteGroups (42), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, string, structs


class DeleteGroupsRequest(Message, api_key=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


class DeleteGroupsResponse(Message, api_key=ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = structs()


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
