"""Fetch (1), versions 4-18."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import (
    Buffer,
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    record_data,
    string,
    struct,
    structs,
    uuid,
)


class FetchRequest(Message, api_key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState = struct("15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8()
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = structs()
    forgotten_topics_data: list[ForgottenTopic] = structs("7+")
    rack_id: str = string("11+")


class ReplicaState(Struct):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchTopic(Struct):
    topic: str = string("4-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = structs()


class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1)


class FetchResponse(Message, api_key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = structs()
    node_endpoints: list[NodeEndpoint] = structs("16+", tag=0)


class FetchableTopicResponse(Struct):
    topic: str = string("4-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = structs()


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="16+", default=None)


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = struct("12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct("12+", tag=1)
    snapshot_id: SnapshotId = struct("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = structs(nullable="4+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = record_data(nullable="4+")


class EpochEndOffset(Struct):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()
