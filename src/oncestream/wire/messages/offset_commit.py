"""OffsetCommit (8), versions 2-10."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, int64, string, structs, uuid


class OffsetCommitRequest(Message, api_key=ApiKey.OFFSET_COMMIT, versions="2-10", flexible="8+"):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = structs()


class OffsetCommitRequestTopic(Struct):
    name: str = string("2-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = structs()


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="2+")


class OffsetCommitResponse(Message, api_key=ApiKey.OFFSET_COMMIT, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = structs()


class OffsetCommitResponseTopic(Struct):
    name: str = string("2-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = structs()


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
