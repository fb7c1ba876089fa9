"""The parameters of a pipeline, in one table: `write`, `@pipeline` and the command line take the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypedDict

from oncestream.client.settings import servers_or_default
from oncestream.errors import BadPipeline
from oncestream.records.compression import Codec
from oncestream.spark.batch import OnOutcome, OnStep, Step
from oncestream.spark.sink import Delivery, PartitionBy, Partitioner

DEAD_LETTERS_MAX: Final = 10_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
ATTEMPTS_MAX: Final = 3
ONCE: Final = "once"
CONTINUOUS: Final = "continuous"


class OptionNames(TypedDict, total=False):
    """The names and types a caller may give; `Options` has the defaults and what they mean."""

    bootstrap_servers: str | None
    settings: Mapping[str, str]
    checkpoint: str | os.PathLike[str] | None
    delivery: str
    trigger: str
    partition_by: str | Partitioner
    compression: str
    dead_letters: str | None
    dead_letters_max: int
    dedupe: str | None
    dedupe_within: str | None
    output_mode: str
    transaction_timeout_ms: int
    attempts_max: int
    on_step: OnStep | None
    on_outcome: OnOutcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a pipeline reads, promises and writes.

    bootstrap_servers: of the sink's cluster; $ONCESTREAM_BOOTSTRAP or 127.0.0.1:9092 if not given.
    settings: further Kafka client settings (security.protocol, sasl.mechanism, ...).
    checkpoint: folder of Spark's own notes; .oncestream/checkpoints/<pipeline> if not given.
    delivery: exactly-once, at-least-once or at-most-once.
    trigger: continuous, once (all there is, then stop), or an interval such as "5 seconds".
    partition_by: auto, column, key, round-robin, or a function (row, partitions) -> partition.
    compression: none, gzip, snappy, lz4 or zstd.
    dead_letters: topic of dead letters; <topic>.dead if not given.
    dead_letters_max: a batch with more of them stops the pipeline, and nothing of it is committed.
    dedupe: column of the input (or output) by which repeated rows are dropped; "oncestream.producer" drops what
        a named producer has sent again.
    dedupe_within: how far apart repetitions may lie, e.g. "1 day"; without it all are remembered for good.
    output_mode: append, update or complete, as Spark has them for aggregations.
    transaction_timeout_ms: a batch that takes longer is run again with twice the time.
    attempts_max: how often a batch is run before the pipeline stops.
    on_step, on_outcome: called at each step of a batch, and with what became of it.
    """

    bootstrap_servers: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | os.PathLike[str] | None = None
    delivery: str = Delivery.EXACTLY_ONCE
    trigger: str = CONTINUOUS
    partition_by: str | Partitioner = PartitionBy.AUTO
    compression: str = "none"
    dead_letters: str | None = None
    dead_letters_max: int = DEAD_LETTERS_MAX
    dedupe: str | None = None
    dedupe_within: str | None = None
    output_mode: str = "append"
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    attempts_max: int = ATTEMPTS_MAX
    on_step: OnStep | None = None
    on_outcome: OnOutcome | None = None

    @property
    def servers(self) -> str:
        return servers_or_default(self.bootstrap_servers)

    def partitioner(self, pipeline: str) -> PartitionBy | Partitioner:
        if not isinstance(self.partition_by, str):
            return self.partition_by
        return PartitionBy(_one_of(pipeline, "partition_by", self.partition_by, list(PartitionBy)))

    def promise(self, pipeline: str) -> Delivery:
        return Delivery(_one_of(pipeline, "delivery", self.delivery, list(Delivery)))

    def codec(self, pipeline: str) -> Codec:
        names = [codec.name.lower() for codec in Codec]
        return Codec[_one_of(pipeline, "compression", self.compression, names).upper()]

    def step(self, step: Step, batch: int) -> None:
        if self.on_step is not None:
            self.on_step(step, batch)


def _one_of(pipeline: str, name: str, value: str, allowed: list[str]) -> str:
    if value not in allowed:
        raise BadPipeline(
            pipeline=pipeline, reason=f"{name}={value!r}, it must be one of {', '.join(allowed)}"
        )
    return value
