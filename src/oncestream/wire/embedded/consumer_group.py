"""A consumer group of KIP-848, as records of __consumer_offsets."""

from __future__ import annotations

from oncestream.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int32,
    int64,
    string,
    struct,
    structs,
    uuid,
)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0", flexible="none"):
    group_id: str = string()


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = structs()


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = structs()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0", flexible="none"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0", flexible="none"):
    group_id: str = string()
    member_id: str = string()


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(nullable="0+", tag=0)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = structs()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0", flexible="none"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0", flexible="none"):
    group_id: str = string()
    member_id: str = string()


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = structs()


class TopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0", flexible="none"):
    group_id: str = string()
    member_id: str = string()


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = structs()
    partitions_pending_revocation: list[TopicPartitions] = structs()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0", flexible="none"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
