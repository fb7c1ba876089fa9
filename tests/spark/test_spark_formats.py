"""`format("oncestream")` in sessions of all kinds, and what it says where it cannot serve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from oncestream.errors import NoSparkWriter, UnknownTopic, WorkersLackPackage
from oncestream.spark.error_text import error_in
from oncestream.spark.failure import told
from tests.spark.sink_kit import rows, stream
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 200
PLAIN = """\
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
read = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2], "startingOffsets": "earliest"}
print(spark.read.format("oncestream").options(**read).load().count())
stream = spark.readStream.format("oncestream").options(**read).load()
query = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
query.awaitTermination()
print(spark.sql("select count(*) from seen").first()[0])
"""


def test_spark_finds_it_in_a_plain_session_that_knows_nothing_of_it(
    embedded_log: Log, tmp_path: Path
) -> None:
    topic = embedded_log.topic(1)
    embedded_log.write(topic, ["a", "b"])
    (tmp_path / "plain.py").write_text(PLAIN)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}  # as an activated environment has it
    command = [sys.executable, "plain.py", embedded_log.bootstrap, topic]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.stdout.split() == ["2", "2"], done.stderr


def test_sparks_own_write_names_the_line_to_type_instead(spark: SparkSession, embedded_log: Log) -> None:
    writer = rows(spark, [("a",)], "value string").write.format("oncestream").mode("append")
    with pytest.raises(AnalysisException) as raised:
        writer.options(**{"kafka.bootstrap.servers": "b:1", "topic": "/apps/pump:warning"}).save()
    found = error_in(str(raised.value))
    assert isinstance(found, NoSparkWriter)
    assert found.suggestion_text == (
        'type this instead: once.write(df, topic="/apps/pump:warning", pipeline="apps-pump-warning",'
        ' run="NAME-OF-THIS-LOAD", bootstrap_servers="b:1")'
    )
    assert "Traceback" not in str(raised.value)


def test_sparks_own_write_stream_names_it_too(spark: SparkSession, embedded_log: Log, tmp_path: Path) -> None:
    source = embedded_log.topic(1)
    embedded_log.write(source, ["a"])
    writer = stream(spark, embedded_log.bootstrap, source).writeStream.format("oncestream")
    query = writer.options(topic="copies", checkpointLocation=str(tmp_path)).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert 'once.write(df, topic="copies", pipeline="copies")' in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_a_table_of_a_topic_that_is_not_there_says_so_without_a_traceback(
    spark: SparkSession, embedded_log: Log
) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("oncestream").options(**embedded_log.options("not-there")).load().count()
    assert isinstance(error_in(str(raised.value)), UnknownTopic)
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    "said",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: oncestream. Make sure the provider name is",
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'oncestream'",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
    ],
)
def test_workers_of_another_python_are_told_by_the_variable_that_chooses_it(said: str) -> None:
    found = told(RuntimeError(said), "pump")
    assert isinstance(found, WorkersLackPackage)
    assert f"set PYSPARK_PYTHON to the driver's own Python ({sys.executable})" in found.suggestion_text
