"""Environments of other systems, made once in the cache folder: Python ones by pip, jars by Maven."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from oncestream.spark.java import cache_folder, find_java
from oncestream.testing.kafka_jars import JarSet, java_command, kafka_jars

SPARK_VERSION: Final = "4.0.1"
# The newest of which Maven has both the connector and its token provider.
CONNECTOR_JARS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
TIMEOUT_S: Final = 1800


@cache
def python_of(name: str, *requirements: str) -> str:
    """The interpreter of an environment with these packages."""

    def make(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *requirements])

    return str(_made(f"peer-{name}", make) / "bin" / "python")


@cache
def connector_jars() -> str:
    """The jars of Spark's own Kafka connector, as spark.jars wants them."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for artifact in CONNECTOR_JARS:
            # One by one: what they depend on needs a parent that Maven does not find.
            _run(
                [
                    "mvn",
                    "-q",
                    "-B",
                    "dependency:copy",
                    f"-Dartifact={artifact}",
                    f"-DoutputDirectory={folder}",
                ]
            )

    return ",".join(sorted(str(jar) for jar in _made("peer-spark-jars", make).glob("*.jar")))


def java_program(
    source: Path, jars: JarSet, arguments: Sequence[str], options: Sequence[str] = ()
) -> list[str]:
    """The command that runs a Java program of this folder, compiled beforehand."""

    def make(folder: Path) -> None:
        compiler = find_java().home / "bin" / "javac"
        _run([str(compiler), "-cp", f"{kafka_jars(jars)}/*", "-d", str(folder), str(source)])

    stamp = int(source.stat().st_mtime)
    classes = _made(f"peer-{source.stem}-{stamp}", make)
    command = java_command(source.stem, *arguments, options=options, jars=jars)
    place = command.index("-cp") + 1
    command[place] = f"{classes}:{command[place]}"
    return command


def _made(name: str, make: Callable[[Path], None]) -> Path:
    folder = cache_folder() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            (folder / ".ready").touch()
    return folder


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()[-500:]}")
