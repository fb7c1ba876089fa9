"""`write`: the rows of a DataFrame, streaming or not, to topics, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from pyspark.sql import DataFrame

from oncestream.client.admin import NewTopic, create_topics, describe_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadPipeline
from oncestream.spark.batch import Outcome
from oncestream.spark.checkpoint import Checkpoint
from oncestream.spark.columns import sink_columns
from oncestream.spark.delivery import AtLeastOnce, AtMostOnce, Deliver, ExactlyOnce, Parts
from oncestream.spark.failure import told
from oncestream.spark.jvm_start import load_tables_ahead
from oncestream.spark.load import load
from oncestream.spark.options import CONTINUOUS, ONCE, OptionNames, PipelineOptions
from oncestream.spark.plan import sources_of
from oncestream.spark.progress import PROGRESS_TOPIC
from oncestream.spark.query import Query
from oncestream.spark.resends import IDENTITY, RESENDS, with_numbers, without_numbers
from oncestream.spark.running import Running
from oncestream.spark.session import check_session
from oncestream.spark.shapes import TopicShapes
from oncestream.spark.shipping import ship_package
from oncestream.spark.sink import Delivery, Sink
from oncestream.spark.spread import DRIVER_ROWS_MAX, Spread
from oncestream.streams.names import parse_topic
from oncestream.streams.topics import topics_to_make

CHECKPOINTS: Final = Path(".oncestream") / "checkpoints"
OWN_PARAMETERS: Final = ("topic", "run")
DEAD_SUFFIX: Final = ".dead"
DEAD_SUFFIX_IN_STREAM: Final = "-dead"  # there a dot would end the stream's path


def write(
    df: DataFrame,
    *,
    pipeline: str,
    topic: str | None = None,
    run: str | None = None,
    **options: Unpack[OptionNames],
) -> Running | Outcome:
    """Writes `df` to a topic, or to the topics its column `topic` names.

    `oncestream.PipelineOptions` lists the parameters.

    A streaming DataFrame: starts a query and returns it. A batch DataFrame: loads it in one transaction and
    returns what became of it; the same `run` a second time writes nothing.
    """
    checked = PipelineOptions.of(pipeline, options, beside=OWN_PARAMETERS)
    if not df.isStreaming:
        if run is None:
            raise BadPipeline(pipeline=pipeline, reason="a batch DataFrame needs run=, the name of this load")
        return _load(df, pipeline, topic, run, checked)
    if run is not None:
        raise BadPipeline(
            pipeline=pipeline, reason="run= is for batch DataFrames; a stream keeps its own progress"
        )
    return start_query(df, pipeline, topic, checked)


def start_query(
    df: DataFrame,
    pipeline: str,
    topic: str | None,
    options: PipelineOptions,
    *,
    connect: Callable[[ClientSettings], Cluster] = Cluster,
    driver_rows_max: int = DRIVER_ROWS_MAX,
) -> Running:
    """Starts a streaming query that writes `df`."""
    load_tables_ahead(df)
    sink = _sink(df, pipeline, topic, options)
    rows = sink_columns(without_repetitions(df, pipeline, options), sink)
    cluster = connect(sink.settings)
    checkpoint = Checkpoint(df.sparkSession, _checkpoint_location(df, pipeline, options))
    query = Query(
        pipeline,
        cluster,
        checkpoint,
        _deliver(cluster, sink, options, is_micro_batch=True, driver_rows_max=driver_rows_max),
        sources_of(rows),
        options.on_outcome,
    )
    try:
        _make_topics(cluster, topic, dead_letters_topic(pipeline, topic, options))
        query.start(rows)
        writer = (
            rows.writeStream.queryName(pipeline)
            .outputMode(options.output_mode)
            .option("checkpointLocation", checkpoint.location)
            .foreachBatch(query)
        )
        if options.trigger == ONCE:
            writer = writer.trigger(availableNow=True)
        elif options.trigger != CONTINUOUS:
            writer = writer.trigger(processingTime=options.trigger)
        return Running(writer.start(), query)
    except Exception as error:
        cluster.close()
        raise told(error, pipeline) from None


def without_repetitions(df: DataFrame, pipeline: str, options: PipelineOptions) -> DataFrame:
    """`dedupe`: of rows with the same value in that column, or of one record sent twice, the first one."""
    if options.dedupe is None:
        return df
    if options.dedupe == RESENDS:
        return without_numbers(_distinct(with_numbers(df, pipeline), IDENTITY, pipeline, options))
    if options.dedupe not in df.columns:
        raise BadPipeline(
            pipeline=pipeline, reason=f"dedupe={options.dedupe!r} is no column of {', '.join(df.columns)}"
        )
    return _distinct(df, [options.dedupe], pipeline, options)


def _distinct(df: DataFrame, columns: list[str], pipeline: str, options: PipelineOptions) -> DataFrame:
    if options.dedupe_within is None:
        return df.dropDuplicates(columns)
    if "timestamp" not in df.columns:
        raise BadPipeline(pipeline=pipeline, reason="dedupe_within needs a column 'timestamp'")
    return df.withWatermark("timestamp", options.dedupe_within).dropDuplicatesWithinWatermark(columns)


def _load(df: DataFrame, pipeline: str, topic: str | None, run: str, options: PipelineOptions) -> Outcome:
    sink = _sink(df, pipeline, topic, options)
    rows = sink_columns(without_repetitions(df, pipeline, replace(options, dedupe_within=None)), sink)
    with closing(Cluster(sink.settings)) as cluster:
        cluster.require_contact()
        _make_topics(cluster, topic, dead_letters_topic(pipeline, topic, options))
        deliver = _deliver(cluster, sink, options, is_micro_batch=False)
        return load(rows, sink, run, cluster, deliver)


def _sink(df: DataFrame, pipeline: str, topic: str | None, options: PipelineOptions) -> Sink:
    if not hasattr(df, "_jdf"):
        raise BadPipeline(
            pipeline=pipeline, reason="Spark Connect is not supported; use a classic Spark session"
        )
    check_session(df.sparkSession)
    ship_package(df.sparkSession)
    return Sink(
        settings=ClientSettings.of(options.servers, options.settings),
        pipeline=pipeline,
        topic=None if topic is None else parse_topic(topic),
        dead_topic=parse_topic(dead_letters_topic(pipeline, topic, options)),
        partition_by=options.partitioner(pipeline),
        codec=options.codec(pipeline),
    )


def _deliver(
    cluster: Cluster,
    sink: Sink,
    options: PipelineOptions,
    *,
    is_micro_batch: bool,
    driver_rows_max: int = DRIVER_ROWS_MAX,
) -> Deliver:
    shapes = TopicShapes(cluster)
    delivery = options.promise(sink.pipeline)
    spread = Spread(
        cluster, sink, shapes, options.dead_letters_max, delivery, is_micro_batch, driver_rows_max
    )
    parts = Parts(cluster, sink, shapes, spread, options.dead_letters_max, options.step)
    match delivery:
        case Delivery.EXACTLY_ONCE:
            return ExactlyOnce(parts, options.attempts_max, options.transaction_timeout_ms)
        case Delivery.AT_LEAST_ONCE:
            return AtLeastOnce(parts)
        case Delivery.AT_MOST_ONCE:
            return AtMostOnce(parts)


def _checkpoint_location(df: DataFrame, pipeline: str, options: PipelineOptions) -> str:
    if options.checkpoint is not None:
        return str(options.checkpoint)
    if not str(df.sparkSession.sparkContext.master).startswith("local"):
        raise BadPipeline(
            pipeline=pipeline,
            reason="on a cluster it needs checkpoint=, a folder that the whole cluster reaches",
        )
    return str((CHECKPOINTS / pipeline).absolute())


def dead_letters_topic(pipeline: str, topic: str | None, options: PipelineOptions) -> str:
    if options.dead_letters:
        return options.dead_letters
    of_stream = topic is not None and topic.startswith("/")
    return f"{topic or pipeline}{DEAD_SUFFIX_IN_STREAM if of_stream else DEAD_SUFFIX}"


def _make_topics(cluster: Cluster, *names: str | None) -> None:
    """Topics that are missing are made: those of streams as these say, others with the broker's own defaults."""
    # To ask for a topic by name would wait for it, as one that was just made may not be known everywhere.
    there = {topic.name for topic in describe_topics(cluster)}
    missing = [name for name in names if name is not None and parse_topic(name) not in there]
    wanted = {name: NewTopic(name) for name in map(parse_topic, missing)}
    if missing:
        wanted |= {topic.name: topic for topic in topics_to_make(cluster, missing)}
    if PROGRESS_TOPIC.name not in there:
        wanted[PROGRESS_TOPIC.name] = PROGRESS_TOPIC
    create_topics(cluster, wanted.values(), exist_ok=True)
