"""OffsetDelete (47), version 0."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, string, structs


class OffsetDeleteRequest(Message, api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = structs()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = structs()


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteResponse(Message, api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"):
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = structs()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = structs()


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
