"""The columns a sink takes, and a user's DataFrame brought into their shape."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from oncestream.errors import BadPipeline
from oncestream.spark.sink import PartitionBy, Sink

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
ORIGIN: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
# What `each` makes and every sink understands.
RECORD: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
        StructField("timestamp", TimestampType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
    ]
)
_TEXT: Final = (StringType, BinaryType)
_ORIGIN_COLUMNS: Final = ("topic", "partition", "offset")


def sink_columns(df: DataFrame, sink: Sink) -> DataFrame:
    """`df` with the sink's columns only, cast to their types; what is missing or of a wrong type is named."""
    types = {field.name: field.dataType for field in df.schema.fields}
    if "value" not in types:
        raise _bad(sink, f"the rows have no column 'value', only {', '.join(types) or 'none'}")
    if sink.topic is None and "topic" not in types:
        raise _bad(sink, "neither a topic is given nor have the rows a column 'topic'")
    if sink.partition_by == PartitionBy.COLUMN and "partition" not in types:
        raise _bad(sink, "partition_by='column' needs a column 'partition'")
    columns = [_value_column(sink, "value", types["value"])]
    if "key" in types:
        columns.append(_value_column(sink, "key", types["key"]))
    if sink.topic is None:
        columns.append(F.col("topic").cast("string").alias("topic"))
    if "partition" in types and sink.partition_by in (PartitionBy.AUTO, PartitionBy.COLUMN):
        _checked(sink, "partition", types, (IntegerType, LongType, ShortType))
        # What does not fit is no partition of any topic: that row becomes a dead letter.
        fits = F.col("partition").between(-(2**31), 2**31 - 1)
        number = F.when(~fits, F.lit(-1)).otherwise(F.col("partition"))
        columns.append(number.cast("int").alias("partition"))
    if "headers" in types:
        columns.append(_headers(sink, types["headers"]))
    if "timestamp" in types:
        columns.append(
            _checked(sink, "timestamp", types, (TimestampType, TimestampNTZType)).cast("timestamp")
        )
    if "error" in types:
        columns.append(_checked(sink, "error", types, (StringType,)))
    origin = _origin(types)
    if origin is not None:
        columns.append(origin.alias("origin"))
    return df.select(*columns)


def _value_column(sink: Sink, name: str, kind: DataType) -> Column:
    if isinstance(kind, _TEXT):
        return F.col(name).cast("binary").alias(name)
    raise _bad(
        sink,
        f"column {name!r} is {kind.simpleString()}, it must be string or binary"
        " (to_json(struct(...)) makes a string of anything)",
    )


def _checked(
    sink: Sink, name: str, types: dict[str, DataType], allowed: tuple[type[DataType], ...]
) -> Column:
    if not isinstance(types[name], allowed):
        names = " or ".join(kind.typeName() for kind in allowed)
        raise _bad(sink, f"column {name!r} is {types[name].simpleString()}, it must be {names}")
    return F.col(name)


def _headers(sink: Sink, kind: DataType) -> Column:
    if isinstance(kind, MapType):
        entries = F.transform(
            F.map_entries("headers"),
            lambda entry: F.struct(
                entry["key"].cast("string").alias("key"), entry["value"].cast("binary").alias("value")
            ),
        )
        return entries.alias("headers")
    if isinstance(kind, ArrayType):
        return F.col("headers").cast(HEADERS).alias("headers")
    raise _bad(
        sink,
        f"column 'headers' is {kind.simpleString()}, it must be array<struct<key: string, value: binary>> or a map",
    )


def _origin(types: dict[str, DataType]) -> Column | None:
    """Where a row came from: what `each` kept, or the source's own columns where the rows still have them."""
    kept = types.get("origin")
    if isinstance(kept, StructType) and kept.fieldNames() == ORIGIN.fieldNames():
        return F.col("origin").cast(ORIGIN)
    if not all(name in types for name in _ORIGIN_COLUMNS):
        return None
    none = F.lit(None).cast("binary")
    return F.struct(
        F.col("topic").cast("string").alias("topic"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("long").alias("offset"),
        none.alias("key"),
        none.alias("value"),
    )


def _bad(sink: Sink, reason: str) -> BadPipeline:
    return BadPipeline(pipeline=sink.pipeline, reason=reason)
