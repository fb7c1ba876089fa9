"""A running pipeline: what Spark calls for every micro-batch, and what is checked before the first."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadPipeline, CheckpointLost
from oncestream.spark.batch import Batch, OnOutcome, Outcome, batch_of
from oncestream.spark.checkpoint import Checkpoint
from oncestream.spark.delivery import Deliver
from oncestream.spark.plan import PlannedSource, is_stateful
from oncestream.spark.progress import Marker, Progress, read_progress

QUERY_ID: Final = "sql.streaming.queryId"
LOG: Final = logging.getLogger("oncestream.pipeline")


@dataclass(slots=True)
class Query:
    """Called by Spark, one batch at a time, in order."""

    pipeline: str
    cluster: Cluster
    checkpoint: Checkpoint
    deliver: Deliver
    sources: list[PlannedSource]
    on_outcome: OnOutcome | None = None
    error: Exception | None = None  # of the batch that failed
    _is_closed: bool = field(default=False, init=False)
    _committed: int | None = field(default=None, init=False)  # the query's last batch that Kafka has
    _own: dict[int, bool] = field(default_factory=dict, init=False)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        try:
            self._run(df, batch_id)
        except Exception as error:
            self.error = error
            raise

    def start(self, df: DataFrame) -> None:
        """Takes the pipeline over from any older driver, then sees whether this one can go on."""
        self.deliver.start()
        progress = read_progress(self.cluster, self.pipeline)
        if progress.is_of_another(self.checkpoint.query_id()):
            self._check_can_go_on(df, progress)

    def close(self) -> None:
        """After the query ended; a second time does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.deliver.close()
        self.cluster.close()

    def _run(self, df: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        query = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise BadPipeline(pipeline=self.pipeline, reason="Spark does not tell the query's id")
        batch = self._batch(query, batch_id)
        if self._committed is None:
            progress = read_progress(self.cluster, self.pipeline, batch.offsets)
            self._committed = progress.batch_of(query)
        if self._committed >= batch_id:
            # Kafka has it, only Spark's own log does not. Stateful operators advance by running.
            df.write.format("noop").mode("overwrite").save()
            outcome = Outcome(
                self.pipeline, batch_id, 0, 0, 0, "noop", 0, 0, time.monotonic() - begun, skipped=True
            )
        else:
            outcome = self.deliver.run(df, batch)
        LOG.info(outcome.line())
        if outcome.dead:
            LOG.warning(outcome.dead_line())
        if self.on_outcome is not None:
            self.on_outcome(outcome)

    def _batch(self, query: str, batch_id: int) -> Batch:
        ends = self.checkpoint.ends_of(batch_id)
        if not ends:
            raise BadPipeline(
                pipeline=self.pipeline,
                reason=f"the checkpoint {self.checkpoint.location} has no offsets of batch {batch_id};"
                " another query or program changes it",
            )
        starts = self.checkpoint.ends_of(batch_id - 1) if batch_id else []
        return batch_of(Marker(query, batch_id), ends, starts, self.cluster.cluster_id, self._is_own)

    def _is_own(self, index: int) -> bool:
        """Whether a source of Spark's own Kafka connector reads from the sink's cluster."""
        if index not in self._own:
            options = self.sources[index].options if index < len(self.sources) else {}
            servers = options.get("kafka.bootstrap.servers")
            self._own[index] = servers is not None and (
                _cluster_id(servers, options) == self.cluster.cluster_id
            )
        return self._own[index]

    def _check_can_go_on(self, df: DataFrame, progress: Progress) -> None:
        """A new checkpoint for a pipeline that has committed work: only the group's offsets can lead on."""
        if is_stateful(df):
            raise CheckpointLost(pipeline=self.pipeline, reason="its state was in that checkpoint")
        if progress.others:
            raise CheckpointLost(
                pipeline=self.pipeline, reason="how far a source had been read was in that checkpoint"
            )
        for source in self.sources:
            starting = source.options.get("startingoffsets", "")
            group = source.options.get("group") or source.options.get("kafka.group.id")
            if starting != "committed" or group not in (None, self.pipeline):
                raise CheckpointLost(
                    pipeline=self.pipeline,
                    reason=f"source {source.format!r} would be read again from elsewhere",
                )


def _cluster_id(servers: str, options: dict[str, str]) -> str:
    settings = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name.startswith("kafka.") and name != "kafka.bootstrap.servers"
    }
    cluster = Cluster(ClientSettings.of(servers, settings))
    try:
        return cluster.cluster_id
    finally:
        cluster.close()
