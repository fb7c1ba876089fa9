"""CreateTopics (19), versions 2-7."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string, structs, uuid


class CreateTopicsRequest(Message, api_key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = structs()
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = structs()
    configs: list[CreatableTopicConfig] = structs()


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="2+")


class CreateTopicsResponse(Message, api_key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = structs()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string(nullable="2+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = structs("5+", nullable="5+")


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = string(nullable="5+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
