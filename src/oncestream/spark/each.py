"""`each`: a Python function applied to every row; a row it fails on becomes a dead letter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from oncestream.spark.columns import ORIGIN, RECORD
from oncestream.spark.user_code import place_of, with_place

ROWS_MAX: Final = 10_000  # in one batch of output
_PLACE: Final = (("topic", str), ("partition", int), ("offset", int))

EachFunction = Callable[[Row], object]


class _Results(NamedTuple):
    """What came of one input row."""

    origin: dict[str, Any]
    rows: list[dict[str, Any]]


def each(function: EachFunction, schema: StructType | str | None = None) -> Callable[[DataFrame], DataFrame]:
    """For `df.transform(each(function))`: `function(row)` returns nothing, one item or many.

    Without `schema` an item is the value of a record (bytes or str) or a dict with any of the columns key,
    value, headers, timestamp, topic and partition; with it, a dict or tuple of its columns. Where the
    function raises, the row becomes one dead letter and nothing else that it gave counts.
    """
    columns = RECORD if schema is None else _struct(schema)
    extra = [StructField("error", StringType()), StructField("origin", ORIGIN)]
    taken = {field.name for field in extra} & set(columns.fieldNames())
    if taken:
        raise ValueError(
            f"each() fills the columns {', '.join(sorted(taken))} itself; leave them out of the schema"
        )
    output = StructType([*columns.fields, *extra])

    def transform(df: DataFrame) -> DataFrame:
        return df.mapInArrow(_Each(function, columns, output), output)

    return transform


@dataclass(frozen=True, slots=True)
class _Each:
    """Runs in a worker: rows in, rows out, in Arrow batches."""

    function: EachFunction
    columns: StructType
    output: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self.output, timezone="UTC")
        pending: list[_Results] = []
        count = 0
        for batch in batches:
            row_type = Row(*batch.schema.names)
            for content in batch.to_pylist():
                results = self._results(row_type(*content.values()), _origin(content))
                pending.append(results)
                count += len(results.rows)
                if count >= ROWS_MAX:
                    yield _to_arrow(pending, schema)
                    pending, count = [], 0
        if pending:
            yield _to_arrow(pending, schema)

    def _results(self, row: Row, origin: dict[str, Any]) -> _Results:
        try:
            rows = [self._columns_of(item) for item in _items(self.function(row))]
        except (Exception, SystemExit) as error:  # sys.exit() in a function ends the row, not the worker
            return _dead(error, origin)
        for result in rows:
            result["origin"] = origin
        return _Results(origin, rows)

    def _columns_of(self, item: object) -> dict[str, Any]:
        if isinstance(item, (bytes, str)) and "value" in self.columns.fieldNames():
            return {"value": _bytes(item)}
        if isinstance(item, Row):
            item = item.asDict()
        if isinstance(item, Mapping):
            unknown = set(item) - set(self.columns.fieldNames())
            if unknown:
                raise TypeError(f"no such columns: {', '.join(map(str, sorted(unknown)))}")
            return {name: self._value(name, value) for name, value in item.items()}
        if isinstance(item, tuple) and len(item) == len(self.columns.fields):
            names = self.columns.fieldNames()
            return {name: self._value(name, value) for name, value in zip(names, item, strict=True)}
        raise TypeError(f"each() cannot make a row of {type(item).__name__}")

    def _value(self, name: str, value: Any) -> Any:
        if self.columns[name].dataType == RECORD["value"].dataType:
            return _bytes(value)
        if name == "headers" and isinstance(value, Mapping):
            return [{"key": key, "value": _bytes(content)} for key, content in value.items()]
        return value


def _items(result: object) -> Iterable[object]:
    if result is None:
        return ()
    if isinstance(result, (bytes, str, Mapping, tuple)):
        return (result,)
    if isinstance(result, Iterable):
        return result
    return (result,)


def _to_arrow(pending: list[_Results], schema: pa.Schema) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist([row for results in pending for row in results.rows], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Some row is of a wrong type: only what it came from is dead, not the whole batch.
        checked = [_checked(results, schema) for results in pending]
        return pa.RecordBatch.from_pylist([row for results in checked for row in results.rows], schema=schema)


def _checked(results: _Results, schema: pa.Schema) -> _Results:
    try:
        pa.RecordBatch.from_pylist(results.rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return _dead(error, results.origin)
    return results


def _dead(error: BaseException, origin: dict[str, Any]) -> _Results:
    reason = with_place(f"{type(error).__name__}: {error}", place_of(error))
    return _Results(origin, [{"error": reason, "origin": origin}])


def _origin(content: Mapping[str, Any]) -> dict[str, Any]:
    """Where the row came from and what it was; a row that is no record is told as JSON."""
    kept = content.get("origin")
    if isinstance(kept, dict):
        return kept
    origin: dict[str, Any] = {name: _only(content.get(name), kind) for name, kind in _PLACE}
    origin["key"] = _bytes(_only(content.get("key"), str | bytes))
    if "value" in content and isinstance(content["value"], str | bytes | None):
        origin["value"] = _bytes(content["value"])
    else:
        origin["value"] = json.dumps(content, default=str, ensure_ascii=False).encode()
    return origin


def _only(value: Any, kind: Any) -> Any:
    """A user's own column may have the name of one of ours."""
    return value if isinstance(value, kind) else None


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _struct(schema: StructType | str) -> StructType:
    if not isinstance(schema, str):
        return schema
    parsed = StructType.fromDDL(schema)
    if not isinstance(parsed, StructType):
        raise ValueError(f"each() needs a schema of columns, {schema!r} is {parsed.simpleString()}")
    return parsed
