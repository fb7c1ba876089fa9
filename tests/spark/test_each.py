"""`each`: what a function may give, and what becomes of a row it fails on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

import oncestream as once
from oncestream.errors import TooManyDeadLetters
from tests.spark.sink_kit import Run, committed, dead_rows, load, rows, stream, texts
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)  # records of long ago would be deleted


def test_a_function_gives_nothing_one_record_or_many_in_any_form(
    spark: SparkSession, embedded_log: Log
) -> None:
    topic = embedded_log.topic(1)

    def give(row: Row) -> object:
        number = int(row.value)
        return [
            None,
            "text",
            b"bytes",
            {"key": "k", "value": "whole", "headers": {"a": "1", "b": b"2"}, "timestamp": NOON},
            ["list-0", {"value": b"list-1"}],
            (f"generated-{part}" for part in range(3)),
            Row(key=b"r", value=b"row"),
            {"key": b"no value"},
        ][number]

    df = rows(spark, [(str(number),) for number in range(8)], "value string").coalesce(1)
    done = load(df.transform(once.each(give)), embedded_log.bootstrap, topic)
    assert (done.rows, done.dead) == (10, 0)
    found = committed(embedded_log.bootstrap, topic)
    assert [(record.key, record.value) for record in found] == [
        (None, b"text"),
        (None, b"bytes"),
        (b"k", b"whole"),
        (None, b"list-0"),
        (None, b"list-1"),
        (None, b"generated-0"),
        (None, b"generated-1"),
        (None, b"generated-2"),
        (b"r", b"row"),
        (b"no value", None),
    ]
    assert found[2].headers == (("a", b"1"), ("b", b"2"))
    assert found[2].time_ms == int(NOON.timestamp() * 1000)


def _broken(row: Row) -> object:
    match row.value.decode().partition(" ")[0]:
        case "raises":
            raise LookupError("not found")
        case "half":
            return _half()
        case "type":
            return {"value": 17}
        case "column":
            return {"value": "v", "colour": "red"}
        case "object":
            return object()
        case "leaves":
            sys.exit("enough")
        case "partition":
            return {"value": "v", "partition": 99}
        case _:
            return row.value.upper()


def _half() -> Iterator[str]:
    yield "the first half"
    raise OSError("the rest is missing")


def _line_of(text: str) -> str:
    """The place of this line, as an error tells it."""
    lines = Path(__file__).read_text().splitlines()
    return f"({__file__}, line {next(at for at, line in enumerate(lines, 1) if text in line)})"


NOT_FOUND = f"LookupError: not found {_line_of('raise LookupError')}"
REASONS = {
    "raises": NOT_FOUND,
    "half": f"OSError: the rest is missing {_line_of('raise OSError')}",
    "type": "ArrowTypeError: Expected bytes, got a 'int' object",
    "column": "TypeError: no such columns: colour",
    "object": "TypeError: each() cannot make a row of object",
    "leaves": f"SystemExit: enough {_line_of('sys.exit')}",
}


@pytest.mark.slow
@pytest.mark.parametrize("driver_rows_max", [20_000, 0], ids=["driver", "tasks"])
def test_a_row_it_fails_on_is_one_dead_letter_with_the_input_as_it_was_and_where_it_came_from(
    spark: SparkSession, log: Log, tmp_path: Path, driver_rows_max: int
) -> None:
    source, sink = log.topic(1), log.topic(1)
    log.write(source, ["good"])
    log.write(source, [*REASONS, "partition"], key="k", headers=[("trace", b"7")])
    run = Run(log.bootstrap, tmp_path, sink, driver_rows_max=driver_rows_max)
    (done,) = run.over(stream(spark, log.bootstrap, source).transform(once.each(_broken)))
    assert (done.rows, done.dead) == (1, len(REASONS) + 1)
    assert done.first_dead == NOT_FOUND
    assert (done.path == "driver") == bool(driver_rows_max)
    assert texts(log.bootstrap, sink) == ["GOOD"]
    letters = {record.text: record for record in dead_rows(log.bootstrap, sink)}
    assert {name: letters[name].header("error") for name in REASONS} == REASONS
    assert letters["partition"].header("error") == f"{sink!r} has no partition 99, only 0 to 0"
    offsets = {name: offset for offset, name in enumerate(["good", *REASONS, "partition"])}
    for name, letter in letters.items():
        assert letter.key == b"k"
        assert letter.header("pipeline") == run.name
        assert letter.header("batch") == "0"
        assert letter.header("origin.topic") == source
        assert letter.header("origin.partition") == "0"
        assert letter.header("origin.offset") == str(offsets[name])


def test_a_row_that_names_its_own_error_is_a_dead_letter(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(1)
    content = [("a", None), ("b", "no good")]
    done = load(rows(spark, content, "value string, error string"), embedded_log.bootstrap, topic)
    assert (done.rows, done.dead) == (1, 1)
    (dead,) = dead_rows(embedded_log.bootstrap, topic)
    assert (dead.text, dead.header("error")) == ("b", "no good")
    assert not any(name.startswith("origin") for name, _ in dead.headers)


def test_an_input_without_a_value_column_is_told_as_json(spark: SparkSession, embedded_log: Log) -> None:
    topic = embedded_log.topic(1)

    def refuse(row: Row) -> object:
        raise ValueError(f"{row.amount} is too much")

    df = rows(spark, [("Ann", 5, NOON)], "name string, amount int, at timestamp")
    load(df.transform(once.each(refuse)), embedded_log.bootstrap, topic)
    (dead,) = dead_rows(embedded_log.bootstrap, topic)
    assert json.loads(dead.text) == {"name": "Ann", "amount": 5, "at": str(NOON)}
    assert dead.header("error") == f"ValueError: 5 is too much {_line_of('is too much')}"
    assert not any(name.startswith("origin") for name, _ in dead.headers)


def test_a_schema_gives_columns_for_further_steps(spark: SparkSession, embedded_log: Log) -> None:
    def parse(row: Row) -> object:
        name, amount = row.value.split(",")
        return name, int(amount)

    topic = embedded_log.topic(1)
    df = rows(spark, [("a,1",), ("b,2",), ("c,x",)], "value string")
    parsed = df.transform(once.each(parse, "name string, amount int"))
    assert parsed.columns == ["name", "amount", "error", "origin"]
    out = parsed.selectExpr("concat(name, '=', amount * 2) as value", "error", "origin")
    load(out, embedded_log.bootstrap, topic)
    assert texts(embedded_log.bootstrap, topic) == ["a=2", "b=4"]
    (dead,) = dead_rows(embedded_log.bootstrap, topic)
    assert dead.text == "c,x"


def test_a_schema_cannot_have_the_columns_each_fills_itself() -> None:
    with pytest.raises(ValueError, match="error, origin"):
        once.each(lambda row: row, "value string, error string, origin string")


@pytest.mark.slow
@pytest.mark.parametrize("driver_rows_max", [20_000, 0], ids=["driver", "tasks"])
def test_too_many_dead_letters_stop_the_pipeline_and_nothing_of_the_batch_is_committed(
    spark: SparkSession, log: Log, tmp_path: Path, driver_rows_max: int
) -> None:
    source, sink = log.topic(2), log.topic(2)
    log.write(source, ["one"], partition=0)
    run = Run(log.bootstrap, tmp_path, sink, driver_rows_max=driver_rows_max, dead_letters_max=2)
    run.over(stream(spark, log.bootstrap, source).transform(once.each(_broken)))
    log.write(source, ["two", "raises 1", "raises 2"], partition=0)
    log.write(source, ["three", "raises 3"], partition=1)
    told = "batch 1 of .* has at least 3 dead letters, 2 are allowed; the first: "
    with pytest.raises(TooManyDeadLetters, match=told + re.escape(NOT_FOUND)):
        run.over(stream(spark, log.bootstrap, source).transform(once.each(_broken)))
    assert texts(log.bootstrap, sink) == ["ONE"]
    assert texts(log.bootstrap, f"{sink}.dead") == []
    run.over(stream(spark, log.bootstrap, source).transform(once.each(_broken)), dead_letters_max=3)
    assert texts(log.bootstrap, sink) == ["ONE", "THREE", "TWO"]
    assert texts(log.bootstrap, f"{sink}.dead") == ["raises 1", "raises 2", "raises 3"]


def test_a_function_sees_every_column_of_the_source(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    source, sink = log.topic(1), log.topic(1)
    log.write(source, ["v"], key="k", time_ms=int(NOON.timestamp() * 1000), headers=[("h", b"x")])

    def tell(row: Row) -> dict[str, Any]:
        (header,) = row.headers
        told = f"{row.topic} {row.partition} {row.offset} {row.timestamp.isoformat()} {header['value']!r}"
        return {"key": row.key, "value": told}

    Run(log.bootstrap, tmp_path, sink).over(stream(spark, log.bootstrap, source).transform(once.each(tell)))
    (record,) = committed(log.bootstrap, sink)
    assert (record.key, record.text) == (b"k", f"{source} 0 0 {NOON.isoformat()} b'x'")
