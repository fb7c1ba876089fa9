"""DeleteRecords (21), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int16, int32, int64, string, structs


class DeleteRecordsRequest(Message, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = structs()
    timeout_ms: int = int32()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = structs()


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsResponse(Message, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = structs()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = structs()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()
