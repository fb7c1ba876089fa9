"""ElectLeaders (43), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int8, int16, int32, string, structs


class ElectLeadersRequest(Message, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = structs(nullable="0+")
    timeout_ms: int = int32(default=60000)


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersResponse(Message, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = structs()


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = structs()


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
