"""The job on Oncestream: python oncestream_pipeline.py BOOTSTRAP SOURCE SINK NAME ROWS_PER_BATCH [MASTER]."""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import functions
from pyspark.sql.streaming.query import StreamingQuery

import oncestream as once


def main() -> None:
    bootstrap, source, sink, name, rows_per_batch, *master = sys.argv[1:]
    spark = once.session(name, master=master[0] if master else "local[*]")
    values = (
        spark.readStream.format("oncestream")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    upper = values.select(functions.upper(values.value.cast("string")).alias("value"))
    query = once.write(
        upper,
        pipeline=name,
        topic=sink,
        bootstrap_servers=bootstrap,
        checkpoint=tempfile.mkdtemp(prefix=name),
    )
    assert isinstance(query, StreamingQuery)
    query.awaitTermination()


if __name__ == "__main__":
    main()
