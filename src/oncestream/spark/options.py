"""The parameters of a pipeline, in one table: `write`, `@pipeline` and the command line take the same."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, TypedDict

from oncestream.client.settings import ClientSettings, servers_or_default
from oncestream.errors import BadPipeline
from oncestream.records.compression import Codec
from oncestream.spark.batch import OnOutcome, OnStep, Step
from oncestream.spark.sink import Delivery, PartitionBy, Partitioner

DEAD_LETTERS_MAX: Final = 10_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
ATTEMPTS_MAX: Final = 3
ONCE: Final = "once"
CONTINUOUS: Final = "continuous"
OUTPUT_MODES: Final = ["append", "update", "complete"]
NUMBERS: Final = {
    "dead_letters_max": 0,
    "transaction_timeout_ms": 1,
    "attempts_max": 1,
}  # and the least of each
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
INTERVAL: Final = re.compile(r"\s*(?:interval\s+)?\d+\s*[a-z]+(?:\s+\d+\s*[a-z]+)*\s*", re.I)


class MissingSource(StrEnum):
    """What to do where a topic that a pipeline reads has never existed."""

    WAIT = "wait"
    MAKE = "make"
    FAIL = "fail"


class OptionNames(TypedDict, total=False):
    """The names and types a caller may give; `PipelineOptions` has the defaults and what they mean."""

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
    missing_source: str
    on_step: OnStep | None
    on_outcome: OnOutcome | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
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
    missing_source: wait for a topic of the source that has never existed, make it, or fail.
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
    missing_source: str = MissingSource.WAIT
    on_step: OnStep | None = None
    on_outcome: OnOutcome | None = None

    @staticmethod
    def of(pipeline: str, given: OptionNames, *, beside: Iterable[str] = ()) -> PipelineOptions:
        """BadPipeline where a name or a value cannot be. `beside`: other parameters, which may have been meant."""
        check_names(pipeline, given, beside)
        return PipelineOptions(**given).checked(pipeline)

    def changed(self, pipeline: str, given: OptionNames) -> PipelineOptions:
        check_names(pipeline, given)
        return replace(self, **given).checked(pipeline)

    def checked(self, pipeline: str) -> PipelineOptions:
        if not NAME.fullmatch(pipeline):
            reason = "its name must be letters, digits, '.', '_' and '-', at most 200 of them"
            raise BadPipeline(pipeline=pipeline, reason=reason)
        self.partitioner(pipeline)
        self.promise(pipeline)
        self.codec(pipeline)
        self.missing(pipeline)
        _one_of(pipeline, "output_mode", self.output_mode, OUTPUT_MODES)
        if self.trigger not in (ONCE, CONTINUOUS) and not INTERVAL.fullmatch(str(self.trigger)):
            reason = (
                f"trigger={self.trigger!r}, it must be continuous, once, or an interval such as '5 seconds'"
            )
            raise BadPipeline(pipeline=pipeline, reason=reason)
        for name, least in NUMBERS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                reason = f"{name}={value!r}, it must be a whole number, {least} or more"
                raise BadPipeline(pipeline=pipeline, reason=reason)
        ClientSettings.of(self.servers, self.settings)
        return self

    def missing(self, pipeline: str) -> MissingSource:
        return MissingSource(_one_of(pipeline, "missing_source", self.missing_source, list(MissingSource)))

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


def check_names(pipeline: str, given: Mapping[str, Any], beside: Iterable[str] = ()) -> None:
    """BadPipeline that names the nearest option where one is unknown."""
    known = [field.name for field in fields(PipelineOptions)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *beside], 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadPipeline(pipeline=pipeline, reason=f"there is no option {name!r}{meant}")


def _one_of(pipeline: str, name: str, value: str, allowed: list[str]) -> str:
    if value not in allowed:
        raise BadPipeline(
            pipeline=pipeline, reason=f"{name}={value!r}, it must be one of {', '.join(allowed)}"
        )
    return value
