"""A standalone Spark master and one worker, from the jars of the pip package."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from oncestream.spark.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent


@contextmanager
def standalone_cluster(folder: Path, cores: int = 2) -> Iterator[str]:
    """The master's URL. Its executors find none of this repository's packages."""
    master = _start(folder, "master.Master", "--port", "0")
    try:
        url = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        arguments = ("-c", str(cores), "-m", "2G", "-d", str(folder), url)
        worker = _start(folder, "worker.Worker", *arguments)
        try:
            _wait_for(worker, r"Successfully registered with (master)")
            yield url
        finally:
            _stop(worker)
    finally:
        _stop(master)


def _start(folder: Path, main_class: str, *arguments: str) -> subprocess.Popen[str]:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main_class}"]
    command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"SPARK_HOME": str(SPARK_HOME), "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env, cwd=folder
    )


def _wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"Spark ended without {pattern!r}:\n{''.join(seen)}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()
