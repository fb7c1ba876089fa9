"""DescribeGroups (15), versions 0-6."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, binary, boolean, int16, int32, string, structs


class DescribeGroupsRequest(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponse(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = structs()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = structs()
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()
