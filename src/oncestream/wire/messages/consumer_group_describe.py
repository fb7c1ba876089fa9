"""ConsumerGroupDescribe (69), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    structs,
    uuid,
)


class ConsumerGroupDescribeRequest(
    Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeResponse(
    Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = structs()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = structs()
    authorized_operations: int = int32(default=-2147483648)


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = struct()
    target_assignment: Assignment = struct()
    member_type: int = int8("1+", default=-1)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = structs()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)
