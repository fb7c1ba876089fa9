"""ConsumerGroupHeartbeat (68), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, string, struct, structs, uuid


class ConsumerGroupHeartbeatRequest(
    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[RequestTopicPartitions] | None = structs(nullable="0+", default=None)


class RequestTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatResponse(
    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(nullable="0+", default=None)


class Assignment(Struct):
    topic_partitions: list[ResponseTopicPartitions] = structs()


class ResponseTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
