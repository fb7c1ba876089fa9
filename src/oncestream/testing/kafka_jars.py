"""Apache Kafka's own jars, fetched once by Maven into a cache folder, and its tools run from there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oncestream.errors import JarsUnavailable, JavaUnavailable
from oncestream.spark.java import cache_folder

KAFKA_VERSION: Final = "4.3.0"
JAVA_VERSION_MIN: Final = 17
FETCH_TIMEOUT_S: Final = 600

# Tools live for a second: the quick compiler and collector start faster than the good ones.
TOOL_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # Some tools leave a client behind that complains of brokers which are gone.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=error",
)


class JarSet(NamedTuple):
    """Maven artifacts, as group:artifact:version, that are fetched together, with all they need or without."""

    name: str
    artifacts: tuple[str, ...]
    alone: bool = False


LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"
KAFKA: Final = JarSet(
    "kafka",
    (
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
        LOGGING,
    ),
)
KAFKA_STREAMS: Final = JarSet("kafka-streams", (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", LOGGING))
# Spark's own connector: alone, since the rest of Spark is there and the parents of these cannot all be fetched.
SPARK_CONNECTOR: Final = JarSet(
    "spark-connector",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
    alone=True,
)


def run_tool(
    main_class: str, *arguments: str, stdin: str = "", timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools in a JVM of its own; the caller looks at the return code."""
    return subprocess.run(  # noqa: S603 -- the caller's own tool and arguments
        java_command(main_class, *arguments, options=TOOL_OPTIONS),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def java_command(*arguments: str, options: Sequence[str] = (), jars: JarSet = KAFKA) -> list[str]:
    """The command that runs a main class, or a Java source file, with Kafka's jars."""
    return [_java(), *options, "-cp", f"{kafka_jars(jars)}/*", *arguments]


@cache
def kafka_jars(jars: JarSet = KAFKA) -> Path:
    """The folder of jars; the first call on a machine lets Maven fetch them (Kafka 54 MB, Streams 94 MB)."""
    _java()
    home = cache_folder() / f"{jars.name}-{KAFKA_VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / ".lock"):
        if not (home / "lib").is_dir():
            _fetch(home, jars)
    return home / "lib"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(home: Path, jars: JarSet) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaUnavailable(program="Maven (mvn)", reason="it is not on the PATH")
    (home / "pom.xml").write_text(_pom(jars))
    partial = home / "lib.partial"
    shutil.rmtree(partial, ignore_errors=True)
    command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(  # noqa: S603 -- a fixed command
            command, cwd=home, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise JarsUnavailable(reason=f"Maven did not end within {FETCH_TIMEOUT_S} s") from error
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["Maven said nothing"]
        raise JarsUnavailable(reason=lines[0])
    partial.rename(home / "lib")


def _pom(jars: JarSet) -> str:
    others = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{others if jars.alone else ''}</dependency>\n"
        for group, artifact, version in (coordinates.split(":") for coordinates in jars.artifacts)
    )
    return f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>oncestream</groupId><artifactId>{jars.name}</artifactId><version>1</version>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


@cache
def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise JavaUnavailable(
            program="Java", reason=f"it is not in {home}/bin" if home else "it is not on the PATH"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        first_line = said.partition("\n")[0]
        raise JavaUnavailable(program=f"Java {JAVA_VERSION_MIN} or newer", reason=f"found {first_line}")
    return java
