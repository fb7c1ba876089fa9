"""Starts Spark's JVM with options for a quick start, and works ahead of Spark while it starts."""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from oncestream import machine
from oncestream.spark.class_archive import class_archive_options
from oncestream.spark.java import find_java
from oncestream.spark.java_words import JavaWords
from oncestream.spark.shipping import is_in_process

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkConf
    from pyspark.sql import DataFrame

# Four times the defaults: the optimising compiler takes as much CPU time as all else that starts, for code
# that runs once. What a stream repeats passes these within seconds; with sixteen times, small batches take twice
# as long for minutes.
LATER_OPTIMISATION: Final = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
# Spark's classes pass the default of 21 MB while it starts, and every time all of the heap is collected.
ROOM_FOR_CLASSES: Final = "-XX:MetaspaceSize=128m"
# These functions need tables of all letters, which take half a second to make.
CASE_MAPPING: Final = re.compile(r"\b(upper|lower|initcap)\(")
CASE_TABLES: Final = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
SERIAL_CORES_MAX: Final = 2
# The driver imports these with its first call into the JVM: pandas is among what they need.
DRIVER_MODULES: Final = ("pyspark.testing.utils", "oncestream.spark.source", "oncestream.spark.write")

log = logging.getLogger(__name__)


def java_options(own: str) -> list[str]:
    """For spark.driver.defaultJavaOptions, beside the user's `own` ones."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    archive = class_archive_options(find_java(), pyspark.__version__, home / "jars")
    return [*LATER_OPTIMISATION, ROOM_FOR_CLASSES, *_collector(own), *archive]


def start_jvm(conf: SparkConf, stderr: JavaWords) -> None:
    """Starts the JVM where this process has none yet; what the driver needs next is got ready meanwhile."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._jvm is not None:
        return
    Thread(target=_import_ahead, name="oncestream-import-ahead", daemon=True).start()
    with stderr.pipe() as said:
        gateway = launch_gateway(conf, {"stderr": said})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(conf=conf, gateway=gateway)
    _ahead("load", partial(_load_for_session, SparkContext._jvm))


def load_tables_ahead(df: DataFrame, tables: str = CASE_TABLES) -> Thread:
    """Makes the JVM build, while a query starts, what its first row would wait for; gives the thread at it."""

    def load() -> None:
        context = df.sparkSession.sparkContext
        plan = df._jdf.queryExecution().analyzed().toString()
        if is_in_process(context.master or "") and CASE_MAPPING.search(plan):
            assert context._jvm is not None
            context._jvm.java.lang.Class.forName(tables)

    return _ahead("tables", load)


def _ahead(what: str, load: Callable[[], None]) -> Thread:
    """Loads it on a thread of its own; a failure costs time only."""

    def run() -> None:
        try:
            load()
        except Exception as error:
            log.debug("nothing loaded ahead: %r", error)

    thread = Thread(target=run, name=f"oncestream-{what}-ahead", daemon=True)
    thread.start()
    return thread


def _collector(own: str) -> list[str]:
    """Half the memory of the JVM's default one at the same speed; two at once would stop the JVM."""
    if COLLECTOR.search(own):
        return []
    few_cores = machine.usable_cores() <= SERIAL_CORES_MAX
    return ["-XX:+UseSerialGC" if few_cores else "-XX:+UseParallelGC"]


def _import_ahead() -> None:
    for module in DRIVER_MODULES:
        importlib.import_module(module)


def _load_for_session(jvm: JVMView) -> None:
    """Makes the JVM load, beside the start of the SparkContext, what comes after it: 0.6 s less in the end."""
    # Spark registers these functions with every session: Scala's reflection starts up for them.
    jvm.org.apache.spark.sql.ml.InternalFunctionRegistration().apply(None)
    # The compiler of generated code, which no class archive can hold.
    jvm.org.codehaus.janino.ClassBodyEvaluator().cook("public int one() { return 1; }")
