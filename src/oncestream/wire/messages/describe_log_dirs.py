"""DescribeLogDirs (35), versions 1-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string, structs


class DescribeLogDirsRequest(Message, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = structs(nullable="1+")


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsResponse(Message, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = structs()


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = structs()
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = structs()


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()
