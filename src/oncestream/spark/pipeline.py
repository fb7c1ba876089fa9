"""`@pipeline`: a function from DataFrames to a DataFrame, with where it reads and where it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncestream.errors import BadPipeline
from oncestream.spark.options import OptionNames, Options
from oncestream.spark.query import Query
from oncestream.spark.resends import RESENDS, has_numbers
from oncestream.spark.session import session
from oncestream.spark.write import start_query, without_repetitions

# A topic (or several, by commas), or a function that makes any other streaming DataFrame.
Source = str | Callable[[SparkSession], DataFrame]
Transform = Callable[..., DataFrame]
Starter = Callable[[DataFrame, str, str | None, Options], tuple[StreamingQuery, Query]]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Call it as the function it was; `start` or `run` it as a pipeline."""

    name: str
    transform: Transform
    sources: Mapping[str, Source]
    sink: str | None
    options: Options
    read_options: Mapping[str, str]
    starter: Starter = start_query

    def __call__(self, *inputs: DataFrame, **named: DataFrame) -> DataFrame:
        return self.transform(*inputs, **named)

    def start(self, spark: SparkSession | None = None, **changes: Unpack[OptionNames]) -> StreamingQuery:
        """Starts it, in the given session or one of `session()`, and returns its query."""
        return self._start(spark, changes)[0]

    def run(self, spark: SparkSession | None = None, **changes: Unpack[OptionNames]) -> None:
        """Runs it until it ends: with trigger="once" when everything there is was read."""
        streaming, query = self._start(spark, changes)
        # In a thread of its own: a signal that reaches a thread which waits for Java breaks the way to Java.
        waiting = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        try:
            waiting.submit(streaming.awaitTermination).result()
        except Exception as error:
            if query.error is not None:
                raise query.error from error
            raise
        finally:
            streaming.stop()
            waiting.shutdown()
            query.close()

    def _start(self, spark: SparkSession | None, changes: OptionNames) -> tuple[StreamingQuery, Query]:
        options = replace(self.options, **changes)
        spark = spark or session(self.name)
        inputs = {name: self._read(spark, name, source, options) for name, source in self.sources.items()}
        output = self.transform(*inputs.values()) if len(inputs) == 1 else self.transform(**inputs)
        if not isinstance(output, DataFrame):
            raise BadPipeline(
                pipeline=self.name, reason=f"its function returned {type(output).__name__}, not a DataFrame"
            )
        if any(_tells_repetitions(df, options) for df in inputs.values()):
            options = replace(options, dedupe=None)
        return self.starter(output, self.name, self.sink, options)

    def _read(self, spark: SparkSession, name: str, source: Source, options: Options) -> DataFrame:
        if callable(source):
            df = source(spark)
        else:
            reader = spark.readStream.format("oncestream").option("kafka.bootstrap.servers", options.servers)
            kafka = {f"kafka.{key}": value for key, value in options.settings.items()}
            given = {"subscribe": source, "startingOffsets": "committed", "group": self.name}
            if options.dedupe == RESENDS:
                given["includeHeaders"] = "true"
            df = reader.options(**(kafka | given | dict(self.read_options))).load()
        if not df.isStreaming:
            raise BadPipeline(pipeline=self.name, reason=f"source {name!r} is no stream: use readStream")
        return without_repetitions(df, self.name, options) if _tells_repetitions(df, options) else df


def pipeline(
    *,
    source: Source | Mapping[str, Source],
    sink: str | None = None,
    name: str | None = None,
    read: Mapping[str, str] | None = None,
    **options: Unpack[OptionNames],
) -> Callable[[Transform], Pipeline]:
    """Makes a pipeline of a function.

    source: a topic, or a function of the session for files and tables; a dict of several, whose names are
    the function's parameters. sink: the topic written to; None where column `topic` says.
    name: of the pipeline (its transactional id and its group); the function's name if not given.
    read: further options of the source (maxOffsetsPerTrigger, ...). The rest: see `Options`.
    """
    sources: Mapping[str, Any] = source if isinstance(source, Mapping) else {"input": source}

    def decorate(transform: Transform) -> Pipeline:
        own_name = name or transform.__name__.replace("_", "-")
        return Pipeline(own_name, transform, sources, sink, Options(**options), read or {})

    return decorate


def _tells_repetitions(df: DataFrame, options: Options) -> bool:
    return has_numbers(df) if options.dedupe == RESENDS else options.dedupe in df.columns
