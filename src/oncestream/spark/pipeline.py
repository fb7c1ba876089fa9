"""`@pipeline`: a function from DataFrames to a DataFrame, with where it reads and where it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from pyspark.sql import DataFrame, SparkSession

from oncestream.errors import BadPipeline
from oncestream.spark.failure import function_failed
from oncestream.spark.options import MissingSource, OptionNames, PipelineOptions
from oncestream.spark.preflight import check_sink, check_source
from oncestream.spark.resends import RESENDS, has_numbers
from oncestream.spark.running import Running
from oncestream.spark.session import check_session, session
from oncestream.spark.source_options import stream_options
from oncestream.spark.write import dead_letters_topic, start_query, without_repetitions
from oncestream.streams.names import parse_topic

# A topic (or several, by commas), or a function that makes any other streaming DataFrame.
Source = str | Callable[[SparkSession], DataFrame]
Transform = Callable[..., DataFrame]
Starter = Callable[[DataFrame, str, str | None, PipelineOptions], Running]
OWN_PARAMETERS: Final = ("source", "sink", "name", "read")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Call it as the function it was; `start` or `run` it as a pipeline."""

    name: str
    transform: Transform
    sources: Mapping[str, Source]
    sink: str | None
    options: PipelineOptions
    read_options: Mapping[str, str]
    starter: Starter = start_query

    def __call__(self, *inputs: DataFrame, **named: DataFrame) -> DataFrame:
        return self.transform(*inputs, **named)

    def start(self, spark: SparkSession | None = None, **changes: Unpack[OptionNames]) -> Running:
        """Starts it, in the given session or one of `session()`, and returns its query."""
        options = self.check(**changes)
        return self.start_checked(spark or session(self.name), options)

    def run(self, spark: SparkSession | None = None, **changes: Unpack[OptionNames]) -> None:
        """Runs it until it ends: with trigger="once" when everything there is was read."""
        self.start(spark, **changes).wait()

    def check(self, **changes: Unpack[OptionNames]) -> PipelineOptions:
        """Its options with these changes; an error for what is wrong and can be known without Spark."""
        options = self.options.changed(self.name, changes)
        if self.sink is not None:
            parse_topic(self.sink)
        written = [self.sink, dead_letters_topic(self.name, self.sink, options)]
        settings = [self._settings(each, options) for each in self.sources.values() if isinstance(each, str)]
        sources = [stream_options({name.lower(): value for name, value in each.items()}) for each in settings]
        check_sink(self.name, options, [parse_topic(topic) for topic in written if topic is not None])
        for source in sources:
            check_source(self.name, source, options.missing(self.name))
        return options

    def start_checked(self, spark: SparkSession, options: PipelineOptions) -> Running:
        """Starts it with what `check` has answered."""
        check_session(spark)
        try:
            inputs = {name: self._read(spark, name, source, options) for name, source in self.sources.items()}
            output = self._transformed(inputs)
            if any(_tells_repetitions(df, options) for df in inputs.values()):
                options = replace(options, dedupe=None)
        except Exception as error:
            raise function_failed(error, self.name) from None
        return self.starter(output, self.name, self.sink, options)

    def _transformed(self, inputs: Mapping[str, DataFrame]) -> DataFrame:
        output: Any = self.transform(*inputs.values()) if len(inputs) == 1 else self.transform(**inputs)
        if isinstance(output, DataFrame):
            return output
        reason = f"its function returned {type(output).__name__}, not a DataFrame"
        raise BadPipeline(pipeline=self.name, reason=reason)

    def _read(self, spark: SparkSession, name: str, source: Source, options: PipelineOptions) -> DataFrame:
        if callable(source):
            df = source(spark)
        else:
            reader = spark.readStream.format("oncestream")
            df = reader.options(**self._settings(source, options)).load()
        if not df.isStreaming:
            raise BadPipeline(pipeline=self.name, reason=f"source {name!r} is no stream: use readStream")
        return without_repetitions(df, self.name, options) if _tells_repetitions(df, options) else df

    def _settings(self, topics: str, options: PipelineOptions) -> dict[str, str]:
        """PipelineOptions of the source that reads these topics."""
        kafka = {f"kafka.{key}": value for key, value in options.settings.items()}
        given = {
            "kafka.bootstrap.servers": options.servers,
            "subscribe": topics,
            "startingOffsets": "committed",
            "group": self.name,
            "missingTopics": "fail" if options.missing_source == MissingSource.FAIL else "wait",
        }
        if options.dedupe == RESENDS:
            given["includeHeaders"] = "true"
        return kafka | given | dict(self.read_options)


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
    read: further options of the source (maxOffsetsPerTrigger, ...). The rest: see `PipelineOptions`.
    """
    sources: Mapping[str, Any] = source if isinstance(source, Mapping) else {"input": source}

    def decorate(transform: Transform) -> Pipeline:
        own_name = name or transform.__name__.replace("_", "-")
        checked = PipelineOptions.of(own_name, options, beside=OWN_PARAMETERS)
        return Pipeline(own_name, transform, sources, sink, checked, read or {})

    return decorate


def _tells_repetitions(df: DataFrame, options: PipelineOptions) -> bool:
    return has_numbers(df) if options.dedupe == RESENDS else options.dedupe in df.columns
