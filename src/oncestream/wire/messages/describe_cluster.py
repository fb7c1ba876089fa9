"""DescribeCluster (60), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, int8, int16, int32, string, structs


class DescribeClusterRequest(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterResponse(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = structs()
    cluster_authorized_operations: int = int32(default=-2147483648)


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")
