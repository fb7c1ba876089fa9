"""A batch DataFrame written in one transaction, once per run: the same run a second time writes nothing."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from oncestream.client.cluster import Cluster
from oncestream.spark.batch import Batch, Outcome
from oncestream.spark.delivery import Deliver
from oncestream.spark.progress import Marker, read_record, run_key
from oncestream.spark.sink import Sink


def load(df: DataFrame, sink: Sink, run: str, cluster: Cluster, deliver: Deliver) -> Outcome:
    """Writes `df` unless this run of the pipeline is done already."""
    begun = time.monotonic()
    deliver.start()
    if read_record(cluster, run_key(sink.pipeline, run)) is not None:
        return Outcome(sink.pipeline, 0, 0, 0, 0, "none", 0, 0, time.monotonic() - begun, skipped=True)
    return deliver.run(df, Batch(Marker("", 0), {}, [], None, run=run))
