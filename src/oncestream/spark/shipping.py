"""Brings this package to executors that do not have it."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import oncestream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# Pure or native, each is a folder: Spark unpacks an archive beside the job's files, which workers import from.
SHIPPED: Final = ("oncestream", "crc32c", "cramjam")
PROBES_MAX: Final = 64

log = logging.getLogger(__name__)
_looked_at: WeakSet[SparkContext] = WeakSet()


def ship_package(spark: SparkSession) -> None:
    """Executors that cannot import this package, in this version, get it and its native parts from here."""
    context = spark.sparkContext
    if context in _looked_at or is_in_process(context.master or ""):
        return
    for package in _missing(context):
        log.info("executors have no %s of this version: shipping it", package)
        context.addArchive(f"{_archive(package)}#{package}")
    _looked_at.add(context)


def is_in_process(master: str) -> bool:
    """Whether executors are threads of the driver's JVM."""
    return master == "local" or master.startswith("local[")


def _missing(context: SparkContext) -> list[str]:
    packages, version = SHIPPED, oncestream.__version__

    # A function inside a function travels by value: executors need no oncestream to run it.
    def probe(_: Iterable[int]) -> Iterator[str]:
        from importlib.util import find_spec

        for package in packages:
            other = find_spec(package) is None
            if other or (package == "oncestream" and __import__(package).__version__ != version):
                yield package

    tasks = min(context.defaultParallelism, PROBES_MAX)
    answers = set(context.parallelize(range(tasks), tasks).mapPartitions(probe).collect())
    return [package for package in packages if package in answers]


def _archive(package: str) -> Path:
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent
    path = Path(tempfile.mkdtemp(prefix="oncestream-ship-")) / f"{package}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(folder))
    return path
