"""The three promises a pipeline can make, each a protocol between the driver, its tasks and Kafka.

Exactly-once: rows, dead letters, source offsets and the progress marker of a micro-batch commit in ONE Kafka
transaction, whoever wrote them. Every batch has its own epoch, so what a lost task or an older driver still
sends is refused.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import commit_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer, Transactions
from oncestream.errors import (
    BadPipeline,
    BatchFailed,
    CommitUnknown,
    OncestreamError,
    PipelineFenced,
    ProducerFenced,
    TooManyDeadLetters,
)
from oncestream.spark.batch import Batch, OnStep, Outcome, Step
from oncestream.spark.dead_letters import dead_letter_rows
from oncestream.spark.failure import final_error, reason_of, text_of
from oncestream.spark.outlet import Outlet, Report
from oncestream.spark.progress import (
    group_offsets,
    pipeline_key,
    progress_partition,
    progress_row,
    read_progress,
    read_record,
    run_key,
)
from oncestream.spark.shapes import MESSAGE_BYTES_MAX_DEFAULT, TopicShapes
from oncestream.spark.sink import PartitionBy, Sink
from oncestream.spark.spread import Spread, TwoWritersError

TRANSACTION_TIMEOUT_MS_MAX: Final = 900_000  # brokers refuse more unless told otherwise
JOB_CANCELLED: Final = "cancelled"  # the query was stopped
LOG: Final = logging.getLogger("oncestream.pipeline")


class Deliver(Protocol):
    """One promise. `start` is called once, before the first batch; `run` returns when the batch is done."""

    def start(self) -> None: ...

    def run(self, df: DataFrame, batch: Batch) -> Outcome: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class Parts:
    """What every promise works with."""

    cluster: Cluster
    sink: Sink
    shapes: TopicShapes
    spread: Spread
    dead_letters_max: int
    on_step: OnStep

    def write_rest(
        self, report: Report, batch: Batch, producer: Producer | None, *, progress: bool = True
    ) -> set[TopicPartition]:
        """Dead letters, and a progress record where the group's offsets cannot tell the progress."""
        self._check_dead_letters(report, batch)
        record = _progress_record(self.sink.pipeline, batch) if progress else None
        if not report.dead and record is None:
            return set()
        sink = replace(self.sink, topic=self.sink.dead_topic, partition_by=PartitionBy.AUTO)
        outlet = Outlet(self.cluster, sink, self.shapes, producer, dead_letters_max=0)
        try:
            if report.dead:
                shape = self.shapes.of(sink.dead_topic)
                limit = shape.message_bytes_max if shape is not None else MESSAGE_BYTES_MAX_DEFAULT
                outlet.write(dead_letter_rows(report.dead, sink.pipeline, batch.name, limit))
            if record is not None:
                key, content = record
                outlet.write_to(progress_partition(self.cluster, key), progress_row(key, content))
            rest = outlet.finish()
            self._check_count(rest, batch, 0)
            return {TopicPartition(each.topic, each.partition) for each in rest.written}
        finally:
            outlet.close()

    def outcome(
        self, batch: Batch, report: Report, write_s: float, commit_s: float, total_s: float
    ) -> Outcome:
        """What became of a batch that needed one attempt."""
        return Outcome(
            self.sink.pipeline,
            batch.marker.batch,
            report.rows,
            len(report.dead),
            1,
            self.spread.path,
            write_s,
            commit_s,
            total_s,
            first_dead=report.dead[0].reason if report.dead else None,
        )

    def _check_dead_letters(self, report: Report, batch: Batch) -> None:
        self._check_count(report, batch, self.dead_letters_max)
        if any(each.topic == self.sink.dead_topic for each in report.written) and report.dead:
            reason = f"its rows and its dead letters both go to {self.sink.dead_topic!r}"
            raise BadPipeline(pipeline=self.sink.pipeline, reason=reason)

    def _check_count(self, report: Report, batch: Batch, limit: int) -> None:
        if len(report.dead) > limit:
            raise TooManyDeadLetters(
                batch=batch.name,
                pipeline=self.sink.pipeline,
                dead=f"at least {len(report.dead)}",  # a writer that finds too many stops there
                limit=limit,
                first=report.dead[0].reason,
            )


def _progress_record(pipeline: str, batch: Batch) -> tuple[str, dict[str, Any]] | None:
    if batch.run is not None:
        return run_key(pipeline, batch.run), {"run": batch.run, "at_ms": int(time.time() * 1000)}
    if batch.others or not batch.offsets:
        return pipeline_key(pipeline), {**batch.marker._asdict(), "sources": batch.others}
    return None


@dataclass(slots=True)
class ExactlyOnce:
    parts: Parts
    attempts_max: int
    timeout_ms: int
    _transactions: Transactions = field(init=False)

    def start(self) -> None:
        """Fences every older driver of the pipeline and aborts what it left open."""
        self._transactions = Transactions(self.parts.cluster, self.parts.sink.pipeline, self.timeout_ms)
        self._transactions.start()

    def run(self, df: DataFrame, batch: Batch) -> Outcome:
        started = time.monotonic()
        failures: list[str] = []
        for attempt in range(1, self.attempts_max + 2):
            begun = time.monotonic()
            try:
                report = self._write(df, batch)
            except Exception as error:
                # EndTxn was not sent: nothing of this epoch can become visible.
                self._fence_abort(begun)
                shuffles_now = isinstance(error, TwoWritersError)  # at most once: no fault of the batch
                if (final := final_error(error, self.parts.sink.pipeline)) is not None:
                    raise final from error
                was_cancelled = JOB_CANCELLED in text_of(error)
                if (attempt >= self.attempts_max and not shuffles_now) or was_cancelled:
                    raise self._failed(batch, attempt, error) from error
                failures.append(reason_of(error))
                self._note(batch, attempt, failures)
                continue
            written = time.monotonic()
            try:
                self._transactions.commit()
            except Exception as error:
                if not self._took(batch, begun):
                    failures.append(reason_of(error))
                    self._note(batch, attempt, failures)
                    continue
            done = time.monotonic()
            self.parts.on_step(Step.COMMITTED, batch.marker.batch)
            if failures:
                pipeline = self.parts.sink.pipeline
                LOG.warning("pipeline=%s batch=%s committed at attempt %d, after: %s",
                            pipeline, batch.name, attempt, failures[-1])  # fmt: skip
            outcome = self.parts.outcome(batch, report, written - begun, done - written, done - started)
            return outcome._replace(attempts=attempt)
        raise self._failed(batch, self.attempts_max, CommitUnknown(
            transactional_id=self.parts.sink.pipeline, reason="no commit was answered"
        ))  # fmt: skip

    def close(self) -> None:
        """A stopped pipeline leaves no transaction open."""
        try:
            self._transactions.fence_abort()
        except OncestreamError as error:
            LOG.info("pipeline=%s nothing to abort: %s", self.parts.sink.pipeline, error)

    def _write(self, df: DataFrame, batch: Batch) -> Report:
        """Everything of the batch, under the epoch of its transaction."""
        parts, transactions = self.parts, self._transactions
        parts.on_step(Step.BEGUN, batch.marker.batch)
        report = parts.spread.write(df, transactions.producer, batch.rows_in)
        rest = parts.write_rest(report, batch, transactions.producer)
        transactions.add_partitions(
            rest | {TopicPartition(each.topic, each.partition) for each in report.written}
        )
        parts.on_step(Step.WRITTEN, batch.marker.batch)
        if batch.offsets:
            transactions.commit_offsets(parts.sink.pipeline, group_offsets(batch.offsets, batch.marker))
        parts.on_step(Step.OFFSETS_ADDED, batch.marker.batch)
        return report

    def _fence_abort(self, begun: float) -> None:
        """A new epoch: what stragglers of the failed attempt still send is refused."""
        if (time.monotonic() - begun) * 1000 >= self.timeout_ms:
            self.timeout_ms = min(2 * self.timeout_ms, TRANSACTION_TIMEOUT_MS_MAX)
        try:
            self._transactions.fence_abort(self.timeout_ms)
        except ProducerFenced as error:
            raise self._fenced() from error

    def _took(self, batch: Batch, begun: float) -> bool:
        """Whether a commit whose answer never came was made: a new epoch ends all doubt, the marker tells."""
        self._fence_abort(begun)
        cluster, pipeline = self.parts.cluster, self.parts.sink.pipeline
        if batch.run is not None:
            return read_record(cluster, run_key(pipeline, batch.run)) is not None
        progress = read_progress(cluster, pipeline, batch.offsets)
        return progress.batch_of(batch.marker.query) >= batch.marker.batch

    def _fenced(self) -> PipelineFenced:
        pipeline, epoch = self.parts.sink.pipeline, self._transactions.producer.epoch
        return PipelineFenced(pipeline=pipeline, evidence=f"transactional id {pipeline!r}, epoch {epoch}")

    def _note(self, batch: Batch, attempt: int, failures: list[str]) -> None:
        """An attempt that failed is worth a warning once another has come through; else an error tells it."""
        LOG.info(
            "pipeline=%s batch=%s attempt=%d aborted, running it again: %s",
            self.parts.sink.pipeline, batch.name, attempt, failures[-1],
        )  # fmt: skip

    def _failed(self, batch: Batch, attempts: int, error: Exception) -> BatchFailed:
        return BatchFailed(
            pipeline=self.parts.sink.pipeline, batch=batch.name, attempts=attempts, reason=reason_of(error)
        )


@dataclass(slots=True)
class AtLeastOnce:
    """Rows first, then the offsets: after a crash in between, rows are written again."""

    parts: Parts

    def start(self) -> None:
        """Nobody is fenced."""

    def run(self, df: DataFrame, batch: Batch) -> Outcome:
        parts, number = self.parts, batch.marker.batch
        parts.on_step(Step.BEGUN, number)
        begun = time.monotonic()
        report = parts.spread.write(df, None, batch.rows_in)
        parts.on_step(Step.WRITTEN, number)
        parts.write_rest(report, batch, None)
        written = time.monotonic()
        _commit_to_group(parts, batch)
        done = time.monotonic()
        parts.on_step(Step.COMMITTED, number)
        return parts.outcome(batch, report, written - begun, done - written, done - begun)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class AtMostOnce:
    """Offsets first, then the rows: what a crash or a failure leaves unwritten is not written again."""

    parts: Parts

    def start(self) -> None:
        """Nobody is fenced."""

    def run(self, df: DataFrame, batch: Batch) -> Outcome:
        parts, number = self.parts, batch.marker.batch
        parts.on_step(Step.BEGUN, number)
        begun = time.monotonic()
        parts.write_rest(Report([], []), batch, None)
        _commit_to_group(parts, batch)
        committed = time.monotonic()
        parts.on_step(Step.COMMITTED, number)
        report = Report([], [])
        try:
            report = parts.spread.write(df, None, batch.rows_in)
            parts.write_rest(report, batch, None, progress=False)
        except (TooManyDeadLetters, BadPipeline):
            raise
        except Exception as error:
            LOG.error(
                "pipeline=%s batch=%d rows may be lost, as at-most-once allows: %s",
                parts.sink.pipeline, number, reason_of(error),
            )  # fmt: skip
        done = time.monotonic()
        parts.on_step(Step.WRITTEN, number)
        return parts.outcome(batch, report, done - committed, committed - begun, done - begun)

    def close(self) -> None:
        """Nothing is open."""


def _commit_to_group(parts: Parts, batch: Batch) -> None:
    if batch.offsets:
        commit_offsets(parts.cluster, parts.sink.pipeline, group_offsets(batch.offsets, batch.marker))
