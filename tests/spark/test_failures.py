"""What ends a pipeline is told in two lines, cause and suggestion, with the user's own line and none of Spark's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

import oncestream as once
from oncestream import errors
from oncestream.errors import BadPipeline, BatchFailed, OncestreamError, UnsafeSparkSetting
from oncestream.spark.error_text import error_in
from tests.spark.sink_kit import dead_rows, new_name
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OncestreamError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_known_again_in_the_traceback_of_another_process(kind: type[OncestreamError]) -> None:
    names = {
        name for text in (kind.cause, kind.suggestion) for _, name, _, _ in Formatter().parse(text) if name
    }
    raised = kind(**{name: f"the {name}: 'it'" for name in names})
    text = f"Traceback (most recent call last):\n  File x\noncestream.errors.{kind.__name__}: {raised}\n"
    found = error_in(f"{text} SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===")
    assert type(found) is kind
    assert (found.cause_text, found.suggestion_text) == (raised.cause_text, raised.suggestion_text)


def test_a_text_without_such_an_error_tells_of_none() -> None:
    assert error_in("oncestream.errors.NoSuchError: no; no") is None
    assert error_in("ValueError: no good") is None


def misspells_a_column(rows: DataFrame) -> DataFrame:
    return rows.select("kee", "value")


def calls_what_is_not_there(rows: DataFrame) -> DataFrame:
    return rows.nope("value")  # type: ignore[no-any-return, operator]


def divides(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("cast(1 / (length(value) - 1) as string) as value")


def aggregates_for_good(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").count().selectExpr("cast(count as string) as value")


def raises_in_a_worker(rows: DataFrame) -> DataFrame:
    def fail(value: bytes) -> str:
        raise LookupError(f"no {value.decode()} here")

    return rows.select(F.udf(lambda value: fail(value), "string")("value").alias("value"))  # noqa: PLW0108 -- Spark warns of hints


def ends_a_worker(rows: DataFrame) -> DataFrame:
    def leave(value: bytes) -> str:
        import os

        os._exit(3)

    return rows.select(F.udf(lambda value: leave(value), "string")("value").alias("value"))  # noqa: PLW0108 -- Spark warns of hints


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    return f"({__file__}, line {next(at for at, line in enumerate(lines, 1) if text in line)})"


FAULTS: list[tuple[Callable[[Any], Any], type[OncestreamError], str]] = [
    (misspells_a_column, BadPipeline, f"with name `kee` cannot be resolved.*{line_of('kee')[1:-1]}"),
    (calls_what_is_not_there, BadPipeline, f"`nope` is not supported.*{line_of('rows.nope')[1:-1]}"),
    (aggregates_for_good, BadPipeline, "Invalid streaming output mode: append"),
    (divides, BatchFailed, r"failed 2 times, last because \[DIVIDE_BY_ZERO\] Division by zero"),
    (
        raises_in_a_worker,
        BatchFailed,
        f"because LookupError: no a here .{line_of('raise LookupError')[1:-1]}",
    ),
    (ends_a_worker, BatchFailed, "because a Python worker died: it was killed, out of memory, or ended"),
]


@pytest.mark.parametrize(("function", "kind", "told"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_whatever_ends_a_pipeline_is_an_error_of_ours_in_one_line_and_the_log_has_the_rest(
    spark: SparkSession,
    embedded_log: Log,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    function: Callable[[Any], Any],
    kind: type[OncestreamError],
    told: str,
) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    embedded_log.write(source, ["a"])
    pipeline = once.pipeline(source=source, sink=sink, name=new_name(), attempts_max=2)(function)
    with caplog.at_level(logging.INFO), pytest.raises(kind, match=told) as raised:
        pipeline.run(spark, bootstrap_servers=embedded_log.bootstrap, checkpoint=tmp_path, trigger="once")
    assert "\n" not in str(raised.value)
    assert raised.value.__suppress_context__
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert any(record.exc_info for record in caplog.records) or kind is BatchFailed


def test_sys_exit_in_each_makes_a_dead_letter_and_the_first_of_a_batch_is_logged(
    spark: SparkSession, embedded_log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, sink = embedded_log.topic(1), embedded_log.topic(1)
    embedded_log.write(source, ["a", "b"])

    def leave(row: Any) -> None:
        raise SystemExit(3)

    pipeline = once.pipeline(source=source, sink=sink, name=new_name())(
        lambda rows: rows.transform(once.each(leave))
    )
    pipeline.run(spark, bootstrap_servers=embedded_log.bootstrap, checkpoint=tmp_path, trigger="once")
    reason = f"SystemExit: 3 {line_of('raise SystemExit')}"
    assert [each.header("error") for each in dead_rows(embedded_log.bootstrap, sink)] == [reason] * 2
    told = f"pipeline={pipeline.name} batch=0 has 2 dead letters, the first because: {reason}"
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [told]


def test_an_option_that_does_not_exist_is_refused_where_it_is_typed_with_the_nearest() -> None:
    misspelt: dict[str, Any] = {"sinkk": "out"}
    with pytest.raises(BadPipeline, match=r"there is no option 'sinkk'; did you mean sink\?"):
        once.pipeline(source="in", **misspelt)(misspells_a_column)
    with pytest.raises(BadPipeline, match="delivery='twice', it must be one of"):
        once.pipeline(source="in", sink="out", delivery="twice")(misspells_a_column)


def test_a_session_that_is_not_safe_is_refused_by_the_setting_that_makes_it_so(embedded_log: Log) -> None:
    """A stand-in: a process has one context, which is safe."""

    class Unsafe:
        @property
        def sparkContext(self) -> Unsafe:  # noqa: N802
            return self

        def getConf(self) -> dict[str, str]:  # noqa: N802
            return {"spark.speculation": "true"}

    session: Any = Unsafe()
    pipeline = once.pipeline(source=embedded_log.topic(1), sink="out", name=new_name())(misspells_a_column)
    with pytest.raises(UnsafeSparkSetting):
        pipeline.start(session, bootstrap_servers=embedded_log.bootstrap)
