"""What `oncestream doctor` looks at on this machine."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

from oncestream import machine
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadArgument, BadSetting, NoJava

BASE_PACKAGES: Final = ("confluent-kafka", "cramjam", "crc32c", "rich", "typer", "uvloop")
SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas", "numpy")
FREE_BYTES_WARN: Final = 5 * 1024**3
FREE_BYTES_FAIL: Final = 200 * 1024**2
SYNC_MS_WARN: Final = 20.0
SYNC_TIMES: Final = 15
OPEN_FILES_WARN: Final = 4096


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(NamedTuple):
    name: str
    state: State
    detail: str
    what_to_do: str = ""


def machine_checks(data: Path, listen: str) -> Iterator[Check]:
    yield _python()
    yield _packages("packages", BASE_PACKAGES, State.FAIL, "pip install --upgrade oncestream")
    yield _packages(
        "spark packages", SPARK_PACKAGES, State.WARN, "for pipelines: pip install 'oncestream[spark]'"
    )
    yield _java()
    yield _disk_space(data)
    yield _sync_speed(data)
    yield _open_files()
    yield _port(listen)
    yield _clock()


def _python() -> Check:
    return Check("python", State.OK, f"{sys.version.split()[0]}, {sys.executable}")


def _packages(name: str, wanted: tuple[str, ...], missing_is: State, what_to_do: str) -> Check:
    found, missing = [], []
    for package in wanted:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return Check(name, missing_is, f"not installed: {', '.join(missing)}", what_to_do)
    return Check(name, State.OK, ", ".join(found))


def _java() -> Check:
    from oncestream.spark.java import find_java

    try:
        java = find_java()
    except NoJava as error:
        return Check("java", State.WARN, error.cause_text, f"for pipelines: {error.suggestion_text}")
    return Check("java", State.OK, f"{java.version}, {java.home}")


def _disk_space(data: Path) -> Check:
    folder = _existing(data)
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free at {folder}"
    advice = "make room, shorten retention, or choose another folder with --data"
    if free < FREE_BYTES_FAIL:
        return Check("disk space", State.FAIL, detail, advice)
    return Check(
        "disk space", *((State.WARN, detail, advice) if free < FREE_BYTES_WARN else (State.OK, detail))
    )


def _sync_speed(data: Path) -> Check:
    """Every acknowledged write waits for one."""
    folder = _existing(data)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            times_ms = sorted(_sync_ms(file.fileno()) for _ in range(SYNC_TIMES))
    except OSError as error:
        advice = "give this user the right to write there, or choose another folder with --data"
        return Check("disk sync", State.FAIL, f"cannot write to {folder}: {error.strerror}", advice)
    median_ms = times_ms[len(times_ms) // 2]
    detail = f"{median_ms:.1f} ms per flush at {folder}"
    if median_ms > SYNC_MS_WARN:
        return Check("disk sync", State.WARN, detail, "use a faster disk; batch more records per request")
    return Check("disk sync", State.OK, detail)


def _sync_ms(descriptor: int) -> float:
    os.write(descriptor, b"x" * 4096)
    began = time.perf_counter()
    machine.sync_data(descriptor)
    return (time.perf_counter() - began) * 1000


def _open_files() -> Check:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    unlimited = hard == resource.RLIM_INFINITY
    detail = "no limit" if unlimited else f"up to {hard}"
    if not unlimited and hard < OPEN_FILES_WARN:
        return Check("open files", State.WARN, detail, "raise the limit: ulimit -Hn, or limits.conf")
    return Check("open files", State.OK, detail)


def _port(listen: str) -> Check:
    try:
        host, port = ClientSettings.of(listen).bootstrap[0]
    except BadSetting:
        raise BadArgument(name=f"--listen {listen!r}", reason="it is not HOST:PORT") from None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((host, port))
    except OSError as error:
        advice = "fine if that is your broker (see `broker` below); else use another port with --listen"
        return Check("port", State.WARN, f"{listen} cannot be listened on: {error.strerror}", advice)
    return Check("port", State.OK, f"{listen} is free")


def _clock() -> Check:
    """Timestamps of records and their retention go by it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    synchronised = machine.is_clock_synchronised()
    if synchronised is None:
        return Check("clock", State.OK, f"{now}; whether it is synchronised cannot be asked here")
    if not synchronised:
        advice = "let chrony, ntpd or systemd-timesyncd set it, here and on every machine of the cluster"
        return Check("clock", State.WARN, f"{now}, not synchronised as far as the kernel knows", advice)
    return Check("clock", State.OK, f"{now}, synchronised")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    at = folder.absolute()
    try:
        while not at.is_dir() and at != at.parent:
            at = at.parent
    except OSError as error:
        raise BadArgument(name=f"--data {folder}", reason=f"it cannot be used: {error.strerror}") from None
    return at
