"""TxnOffsetCommit (28), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, int64, string, structs


class TxnOffsetCommitRequest(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = structs()


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = structs()


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitResponse(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = structs()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = structs()


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
