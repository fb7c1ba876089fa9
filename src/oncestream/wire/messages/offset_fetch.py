"""OffsetFetch (9), versions 1-10."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string, structs, uuid


class OffsetFetchRequest(Message, api_key=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"):
    group_id: str = string("1-7")
    topics: list[OffsetFetchRequestTopic] | None = structs("1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = structs("8+")
    require_stable: bool = boolean("7+")


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = structs(nullable="8+")


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array(int32)


class OffsetFetchResponse(Message, api_key=ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = structs("1-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = structs("8+")


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = structs()


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = structs()
    error_code: int = int16()


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string(nullable="1-7")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = structs()


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="8+")
    error_code: int = int16()
