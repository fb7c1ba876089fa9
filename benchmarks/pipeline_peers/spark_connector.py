"""The job on Spark's own Kafka connector, at least once: ... BOOTSTRAP SOURCE SINK NAME JARS (sql|arrow)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions


def main() -> None:
    bootstrap, source, sink, name, jars, kind = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[*]")
        .appName(name)
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    values = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "500000")
        .load()
    )
    query = (
        transformed(values, kind)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", tempfile.mkdtemp(prefix=name))
        .start()
    )
    query.awaitTermination()


def transformed(values: DataFrame, kind: str) -> DataFrame:
    if kind == "sql":
        return values.select(functions.upper(values.value.cast("string")).alias("value"))
    return values.select(values.value.cast("string")).mapInArrow(upper, "value string")


def upper(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow
    import pyarrow.compute

    for batch in batches:
        yield pyarrow.RecordBatch.from_arrays([pyarrow.compute.utf8_upper(batch.column(0))], ["value"])


if __name__ == "__main__":
    main()
