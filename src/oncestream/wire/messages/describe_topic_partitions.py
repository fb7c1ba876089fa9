"""DescribeTopicPartitions (75), version 0."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    structs,
    uuid,
)


class DescribeTopicPartitionsRequest(
    Message, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    topics: list[TopicRequest] = structs()
    response_partition_limit: int = int32(default=2000)
    cursor: RequestCursor | None = struct(nullable="0+", default=None)


class TopicRequest(Struct):
    name: str = string()


class RequestCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsResponse(
    Message, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = structs()
    next_cursor: ResponseCursor | None = struct(nullable="0+", default=None)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = structs()
    topic_authorized_operations: int = int32(default=-2147483648)


class ResponseCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
    offline_replicas: list[int] = array(int32)
