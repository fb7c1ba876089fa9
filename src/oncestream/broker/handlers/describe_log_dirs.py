"""DescribeLogDirs (35), versions 1-5: how much room the partitions take, and how much is left.

Differs from Apache Kafka: there is one folder.
"""

from __future__ import annotations

import os
from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.node import Node
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_ERROR_SINCE: Final = 3


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    node = call.node
    if not call.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if call.version >= _ERROR_SINCE else ErrorCode.NONE
        return DescribeLogDirsResponse(error_code=code)
    disk = os.statvfs(node.settings.data)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=str(node.settings.data.resolve()),
                topics=_sizes(node, request),
                total_bytes=disk.f_blocks * disk.f_frsize,
                usable_bytes=disk.f_bavail * disk.f_frsize,
            )
        ]
    )


def _sizes(node: Node, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
    if request.topics is None:
        wanted = {name: range(len(topic.partitions)) for name, topic in node.topics.items()}
    else:
        wanted = {want.topic: want.partitions for want in request.topics}  # type: ignore[misc]
    return [
        DescribeLogDirsTopic(
            name=name,
            partitions=[
                DescribeLogDirsPartition(partition_index=index, partition_size=partition.log.size_bytes)
                for index in indexes
                if (partition := node.partition(name, index)) is not None
            ],
        )
        for name, indexes in wanted.items()
        if name in node.topics
    ]
