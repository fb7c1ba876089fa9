"""Produce (0), versions 3-13."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import (
    Buffer,
    Message,
    Struct,
    int16,
    int32,
    int64,
    record_data,
    string,
    struct,
    structs,
    uuid,
)


class ProduceRequest(Message, api_key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = structs()


class TopicProduceData(Struct):
    name: str = string("3-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = structs()


class PartitionProduceData(Struct):
    index: int = int32()
    records: Buffer | None = record_data(nullable="3+")


class ProduceResponse(Message, api_key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = structs()
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = structs("10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("3-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = structs()


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = structs("8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct("10+", tag=0)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
