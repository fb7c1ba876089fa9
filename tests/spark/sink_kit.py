"""What tests of the sink stand on: rows to write, an independent reader, and pipelines run to their end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

import oncestream as once
from oncestream.spark.batch import Outcome
from oncestream.spark.options import OptionNames, PipelineOptions
from oncestream.spark.spread import DRIVER_ROWS_MAX
from oncestream.spark.write import start_query
from tests.spark.source_kit import log_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ_TIMEOUT_S: Final = 60.0


class Record(NamedTuple):
    """What a consumer of committed records sees."""

    value: bytes | None
    key: bytes | None
    partition: int
    offset: int
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def text(self) -> str:
        assert self.value is not None
        return self.value.decode()

    def header(self, name: str) -> str:
        """The last of this name, as Kafka's own clients have it."""
        value = dict(self.headers)[name]
        assert value is not None
        return value.decode()


def committed(bootstrap: str, topic: str) -> list[Record]:
    """Every committed record, in the order of offsets per partition; fails where a transaction stays open."""
    ends = log_ends(bootstrap, topic)
    consumer = _consumer(bootstrap, "read_committed")
    try:
        return _read(consumer, topic, {at: end for at, end in ends.items() if end > 0})
    finally:
        consumer.close()


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def _read(consumer: Consumer, topic: str, waiting: dict[int, int]) -> list[Record]:
    consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
    found: list[Record] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    while waiting:
        assert time.monotonic() < deadline, f"{topic}: {waiting} not readable"
        for message in cast("list[Any]", consumer.consume(10_000, 0.1)):
            if message.error() is None:
                found.append(_record(message))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                if message.offset() >= waiting.get(message.partition(), 0):
                    waiting.pop(message.partition(), None)
            else:
                raise AssertionError(message.error())
    return sorted(found, key=lambda record: (record.partition, record.offset))


def _record(message: Any) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(
        message.value(), message.key(), message.partition(), message.offset(), message.timestamp()[1], headers
    )


def texts(bootstrap: str, topic: str) -> list[str]:
    """Values of the committed records, sorted."""
    return sorted(record.text for record in committed(bootstrap, topic))


def new_name(kind: str = "p") -> str:
    return f"{kind}-{uuid.uuid4().hex[:12]}"


def rows(spark: SparkSession, content: Iterable[Sequence[Any]], schema: str) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in content], schema)


def load(
    df: DataFrame,
    bootstrap: str,
    topic: str | None,
    *,
    pipeline: str | None = None,
    run: str = "1",
    **options: Unpack[OptionNames],
) -> Outcome:
    """A batch DataFrame written in one transaction."""
    options = {"bootstrap_servers": bootstrap, **options}
    done = once.write(df, pipeline=pipeline or new_name(), topic=topic, run=run, **options)
    assert isinstance(done, Outcome)
    return done


def dead_rows(bootstrap: str, topic: str) -> list[Record]:
    return committed(bootstrap, f"{topic}.dead")


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """All of a topic, as a stream."""
    reader = spark.readStream.format("oncestream").option("kafka.bootstrap.servers", bootstrap)
    given = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"}
    return reader.options(**(given | options)).load()


class Run:
    """A streaming pipeline that is run, as often as a test likes, over all there is."""

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        topic: str | None,
        *,
        driver_rows_max: int = DRIVER_ROWS_MAX,
        **options: Unpack[OptionNames],
    ) -> None:
        self.name = new_name()
        self.outcomes: list[Outcome] = []
        self._bootstrap = bootstrap
        self._checkpoint = folder
        self._topic = topic
        self._driver_rows_max = driver_rows_max
        self._options = options

    def over(self, df: DataFrame, **changes: Unpack[OptionNames]) -> list[Outcome]:
        """What became of the batches of this run."""
        given = PipelineOptions(
            bootstrap_servers=self._bootstrap,
            checkpoint=self._checkpoint,
            trigger="once",
            on_outcome=self.outcomes.append,
        )
        options = replace(replace(given, **self._options), **changes)
        before = len(self.outcomes)
        start_query(df, self.name, self._topic, options, driver_rows_max=self._driver_rows_max).wait()
        return self.outcomes[before:]
