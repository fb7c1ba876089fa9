"""ListOffsets (2), versions 1-11."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int8, int16, int32, int64, string, structs


class ListOffsetsRequest(Message, api_key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = structs()
    timeout_ms: int = int32("10+")


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = structs()


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsResponse(Message, api_key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = structs()


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = structs()


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)
