"""Metadata (3), versions 0-13."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int16, int32, string, structs, uuid


class MetadataRequest(Message, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = structs(nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


class MetadataResponse(Message, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = structs()
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = structs()
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+")


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = structs()
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+")
