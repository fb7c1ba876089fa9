"""DescribeProducers (61), version 0."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, int64, string, structs


class DescribeProducersRequest(Message, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    topics: list[TopicRequest] = structs()


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class DescribeProducersResponse(Message, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = structs()


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = structs()


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = structs()


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)
