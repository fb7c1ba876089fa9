"""CreatePartitions (37), versions 0-3."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int16, int32, string, structs


class CreatePartitionsRequest(Message, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = structs()
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = structs(nullable="0+")


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsResponse(Message, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = structs()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
