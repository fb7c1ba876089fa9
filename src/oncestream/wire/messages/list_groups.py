"""ListGroups (16), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, string, structs


class ListGroupsRequest(Message, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListGroupsResponse(Message, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = structs()


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")
