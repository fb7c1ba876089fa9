"""Rows find their partition: what the router decides, without a broker."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from oncestream.client.settings import ClientSettings
from oncestream.spark.routing import Router, Rows, Share
from oncestream.spark.shapes import Shape, TopicShapes
from oncestream.spark.sink import Sink

PARTITIONS = 4


class _FourPartitions:
    def of(self, _topic: str) -> Shape:
        return Shape(PARTITIONS)


def test_small_batches_without_keys_take_the_partitions_in_turn() -> None:
    taken = [_partition_of_a_new_batch(Share()) for _ in range(2 * PARTITIONS)]
    assert sorted(taken) == sorted([*range(PARTITIONS)] * 2)


def test_tasks_share_out_the_partitions_among_them() -> None:
    assert [_partitions_of_new_batches(Share(task, 3)) for task in range(3)] == [{0, 3}, {1}, {2}]


def test_a_task_beyond_the_last_partition_writes_to_one_of_another_task() -> None:
    shares = [Share(task, 2 * PARTITIONS) for task in range(2 * PARTITIONS)]
    assert [_partitions_of_new_batches(share) for share in shares] == [{0}, {1}, {2}, {3}] * 2


def _partitions_of_new_batches(share: Share) -> set[int]:
    return {_partition_of_a_new_batch(share) for _ in range(2 * PARTITIONS)}


def _partition_of_a_new_batch(share: Share) -> int:
    sink = Sink(ClientSettings.of("127.0.0.1:9092"), "pipeline", "topic", "topic.dead")
    router = Router(sink, cast("TopicShapes", _FourPartitions()), share)
    (part,) = router.split(pa.RecordBatch.from_pydict({"value": [b"a", b"b"]}))
    assert isinstance(part, Rows)
    return part.to.partition
