"""OffsetForLeaderEpoch (23), versions 2-4."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, int64, string, structs


class OffsetForLeaderEpochRequest(
    Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = structs()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = structs()


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderEpochResponse(
    Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    throttle_time_ms: int = int32()
    topics: list[OffsetForLeaderTopicResult] = structs()


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = structs()


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)
