"""Records as Spark rows: the columns of Spark's own `kafka` source, made from what the client fetches."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncestream.client.topic_partition import TopicPartition


def row_schema(*, headers: bool) -> StructType:
    columns = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        columns.append(StructField("headers", ArrayType(header)))
    return StructType(columns)


def rows_of(partition: TopicPartition, records: pa.RecordBatch, *, headers: bool) -> pa.RecordBatch:
    """The fetched columns with topic and partition put in."""
    count = records.num_rows
    made = {
        "topic": pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        "partition": pa.array(np.full(count, partition.partition, np.int32)),
    }
    schema = _arrow_schema(headers)
    columns = [made[name] if name in made else records.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(
        [
            column.cast(kind) if column.type != kind else column
            for column, kind in zip(columns, schema.types, strict=True)
        ],
        schema=schema,
    )


@cache
def _arrow_schema(headers: bool) -> pa.Schema:
    return to_arrow_schema(row_schema(headers=headers), timezone="UTC")
