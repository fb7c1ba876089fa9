"""`dedupe="oncestream.producer"`: records that a named producer (docs/messaging.md) has sent a second time."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from oncestream.errors import BadPipeline
from oncestream.messaging.record import NAME_HEADER, SEQUENCE_HEADER

RESENDS: Final = NAME_HEADER

_NAME: Final = "__producer"
_NUMBER: Final = "__number"
_NEEDED: Final = ("topic", "partition", "offset", "headers")
# Two rows with the same of all of these are one record, sent twice.
IDENTITY: Final = ["topic", "partition", _NAME, _NUMBER]


def has_numbers(df: DataFrame) -> bool:
    return set(_NEEDED) <= set(df.columns)


def with_numbers(df: DataFrame, pipeline: str) -> DataFrame:
    """Name and number of each record's producer; where it has none, its offset, so that it is like no other."""
    if not has_numbers(df):
        raise BadPipeline(
            pipeline=pipeline,
            reason=f"dedupe={RESENDS!r} needs the columns {', '.join(_NEEDED)} (option includeHeaders=true)",
        )
    name, number = _header(NAME_HEADER), _header(SEQUENCE_HEADER)
    is_numbered = name.isNotNull() & number.isNotNull()
    return df.withColumn(_NAME, F.when(is_numbered, name)).withColumn(
        _NUMBER, F.when(is_numbered, number).otherwise(F.col("offset").cast("string"))
    )


def without_numbers(df: DataFrame) -> DataFrame:
    return df.drop(_NAME, _NUMBER)


def _header(name: str) -> Column:
    """The last header of this name, as text; null where there is none."""
    return F.expr(f"cast(try_element_at(filter(headers, h -> h.key = '{name}'), -1).value as string)")
