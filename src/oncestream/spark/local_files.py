"""A class for Spark's JVM: the local file system that starts no process for every file it makes."""

from __future__ import annotations

import logging
from importlib.resources import files
from typing import Any, Final

PACKAGE: Final = "org.apache.hadoop.fs"
NAME: Final = "QuickLocalFileSystem"
CLASSES: Final = ("QuickRawFileSystem", NAME)  # in the order in which they need each other

log = logging.getLogger(__name__)


def quick_local_files() -> str | None:
    """Makes the class known to Spark's JVM, and answers its name; None where that cannot be."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    known = f"{PACKAGE}.{NAME}"
    try:
        handles = jvm.java.lang.invoke.MethodHandles
        neighbour = jvm.java.lang.Class.forName(f"{PACKAGE}.RawLocalFileSystem")
        lookup = handles.privateLookupIn(neighbour, handles.lookup())
        for name in CLASSES:
            lookup.defineClass((files("oncestream.spark") / "jvm" / f"{name}.class").read_bytes())
    except Exception as error:
        if "duplicate class definition" not in str(error):
            log.info("files are made the slow way: %s", error)
            return None
    return known
