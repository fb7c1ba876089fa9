"""What Spark's plan of a streaming DataFrame tells: its sources and their options, and whether it keeps state."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame

_STATEFUL: Final = re.compile(
    r"~(Aggregate|Deduplicate|DeduplicateWithinWatermark|Distinct|FlatMapGroupsWithState"
    r"|FlatMapGroupsInPandasWithState|TransformWithState\w*|Join|GlobalLimit|LocalLimit)\b"
)
_STREAMING_RELATION: Final = "StreamingRelationV2"


class PlannedSource(NamedTuple):
    """A streaming source; options are empty where Spark does not show them."""

    format: str
    options: dict[str, str]


def sources_of(df: DataFrame) -> list[PlannedSource]:
    """In the order in which the checkpoint lists their offsets."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    found = []
    for index in range(leaves.size()):
        leaf: Any = leaves.apply(index)
        if leaf.isStreaming():
            found.append(_source(leaf))
    return found


def is_stateful(df: DataFrame) -> bool:
    """Whether a lost checkpoint loses more than positions."""
    return _STATEFUL.search(df._jdf.queryExecution().analyzed().toString()) is not None


def _source(leaf: Any) -> PlannedSource:
    if not leaf.getClass().getName().endswith(_STREAMING_RELATION):
        return PlannedSource(leaf.sourceName() if hasattr(leaf, "sourceName") else leaf.nodeName(), {})
    options = leaf.extraOptions()
    return PlannedSource(leaf.sourceName(), {str(key): str(options.get(key)) for key in options.keySet()})
