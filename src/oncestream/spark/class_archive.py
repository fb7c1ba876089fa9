"""The archive of Spark's parsed classes, by which a JVM starts in half the time.

The JVM of the first session writes it when it ends; sessions after that use it. A JVM takes no archive that
does not fit its Java or its jars, and starts without.
"""

from __future__ import annotations

import hashlib
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from oncestream import machine
from oncestream.spark.java import Java, cache_folder

ARCHIVES_MAX: Final = 3
CLAIM_S: Final = 60.0
MAGIC: Final = (b"\xa2\xab\x0b\xf0", b"\xa8\xab\x0b\xf0")  # 0xf00baba2 or ...a8, little-endian
QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
QUIET_FROM_24: Final = ("-Xlog:aot=off",)

log = logging.getLogger(__name__)


def class_archive_options(java: Java, spark_version: str, jars: Path) -> list[str]:
    """JVM options that use the archive, or have it written when no other JVM is at it."""
    folder = cache_folder() / "classes"
    place = hashlib.sha256(f"{java.home}\n{jars}".encode()).hexdigest()[:12]
    archive = folder / f"spark-{spark_version}-java-{java.version}-{place}.jsa"
    quiet = [*QUIET, *(QUIET_FROM_24 if int(java.version.split(".")[0]) >= 24 else ())]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _take_over(archive):
            return [f"-XX:SharedArchiveFile={archive}", *quiet]
        if _claim(archive):
            return [f"-XX:ArchiveClassesAtExit={_partial(archive)}", *quiet]
    except OSError as error:
        log.info("no class archive, so Spark starts slower: %s", error)
    return []


def _take_over(archive: Path) -> bool:
    """Whether there is an archive; one that a JVM has finished since gets its name now."""
    partial = _partial(archive)
    if not archive.exists() and partial.exists() and not _in_use(partial):
        with partial.open("rb") as file:
            whole = file.read(4) in MAGIC  # the JVM writes the head last
        with suppress(FileNotFoundError):
            partial.rename(archive) if whole else partial.unlink()
    if not archive.exists():
        return False
    archive.touch()
    for old in _oldest(archive.parent):
        old.unlink(missing_ok=True)
    return True


def _claim(archive: Path) -> bool:
    """Whether this session is the one that writes the archive."""
    claim = archive.with_suffix(".claim")
    if claim.exists() and (time.time() - claim.stat().st_mtime < CLAIM_S or _in_use(_partial(archive))):
        return False
    claim.unlink(missing_ok=True)
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _in_use(partial: Path) -> bool:
    """Whether a JVM lives that will write this file, or is writing it."""
    return any(bytes(partial) in command for command in machine.command_lines())


def _partial(archive: Path) -> Path:
    return archive.with_suffix(".partial")


def _oldest(folder: Path) -> list[Path]:
    archives = sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime)
    return archives[:-ARCHIVES_MAX]
