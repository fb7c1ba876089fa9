"""The data folder: its lock, its checkpoints, its clean-shutdown marker, and the logs in it."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from oncestream import machine
from oncestream.errors import DataFolderInUse, DataFolderUnusable
from oncestream.storage.boot import BootMark
from oncestream.storage.checkpoints import (
    CLEANER_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    START_OFFSETS,
    OffsetsFile,
    Partition,
    read_lines,
    read_or_make_identity,
    read_topic_id,
    write_topic_id,
)
from oncestream.storage.config import LogConfig
from oncestream.storage.disk import REAL_DISK, Disk
from oncestream.storage.epochs import FILE_NAME as EPOCHS
from oncestream.storage.files import OPEN_FILES_MAX, FilePool
from oncestream.storage.journal import Journal
from oncestream.storage.log import Log
from oncestream.storage.place import LogPlace
from oncestream.storage.recovery import Checkpointed, load_log
from oncestream.storage.reserve import Reserve
from oncestream.storage.room import Room
from oncestream.storage.segment import SUFFIXES
from oncestream.storage.steps import Steps, run_here, step
from oncestream.wire.error_codes import KafkaError

logger = logging.getLogger("oncestream.storage")

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_CONTENT: Final = b'{"version":0,"brokerEpoch":-1}'
DELETE_SUFFIX: Final = "delete"
STRAY_SUFFIX: Final = "stray"
NAME_LENGTH_MAX: Final = 255
PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
DELETED_FOLDER: Final = re.compile(rf".+-\d+\.[0-9a-f]{{32}}-{DELETE_SUFFIX}")


class DataFolder:
    """One broker's data. Made by `open`, which locks it; `close` leaves the marker of a clean stop."""

    def __init__(
        self,
        path: Path,
        lock_fd: int,
        clock_ms: Callable[[], int],
        disk: Disk,
        open_files_max: int,
        boot_id: Callable[[], bytes | None],
    ) -> None:
        self.path = path
        self.ignores_case = disk.ignores_case(path / LOCK)
        self.logs: dict[Partition, Log] = {}
        self.room = Room(path, clock_ms)
        self.reserve = Reserve(path, disk)
        self.journal = Journal(path, disk)
        self.identity = read_or_make_identity(path, disk)
        self._lock_fd = lock_fd
        self._clock_ms = clock_ms
        self._disk = disk
        self._pool = FilePool(open_files_max)
        self._gone: set[Partition] = set()
        self._clean = (path / CLEAN_SHUTDOWN).exists()
        self._boot = BootMark(path, disk, boot_id)
        self._lost_power = (
            not self._clean and self._boot.is_another and read_lines(path / RECOVERY_POINTS) is not None
        )
        self._checkpoints = {
            name: OffsetsFile(path / name, disk) for name in (RECOVERY_POINTS, START_OFFSETS, CLEANER_OFFSETS)
        }
        if self._clean:
            (path / CLEAN_SHUTDOWN).unlink()
            disk.sync_folder(path)
        for leftover in path.iterdir():
            if DELETED_FOLDER.fullmatch(leftover.name):
                shutil.rmtree(leftover)
        with self.room.not_needed_for("holding room back"):
            self.reserve.fill()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock_ms: Callable[[], int],
        disk: Disk = REAL_DISK,
        open_files_max: int = OPEN_FILES_MAX,
        boot_id: Callable[[], bytes | None] = machine.boot_id,
    ) -> DataFolder:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock_fd = _lock(path)
            try:
                return cls(path, lock_fd, clock_ms, disk, open_files_max, boot_id)
            except BaseException:
                os.close(lock_fd)
                raise
        except (OSError, KeyError, ValueError) as error:
            raise DataFolderUnusable(folder=path, reason=error) from error

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """Opens a partition's log, or creates it; recovers it if the last stop was not clean."""
        key = (topic, partition)
        assert key not in self.logs, f"{key} is open already"
        folder = self.path / f"{topic}-{partition}"
        place = LogPlace(
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            folder=folder,
            pool=self._pool,
            disk=self._disk,
            room=self.room,
            journal=self.journal,
            clock_ms=self._clock_ms,
            persist_offsets=self._persist_offsets,
            persist_recovery_point=partial(self._move_recovery_point, key),
        )
        is_new = not folder.exists()
        try:
            self._prepare(folder, key, topic_id)
            log = Log(place, load_log(place, config, self._known_of(key)), config)
        except OSError as error:
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise DataFolderUnusable(folder=folder, reason=error) from error
        self.logs[key] = log
        if log.damage is None:
            self.journal.restored(place.key)
        return log

    def started(self) -> None:
        """All logs are open: what the last stop left of them is dealt with."""
        with self.room.not_needed_for("noting the start"):
            self._checkpoints[RECOVERY_POINTS].write()
            self._boot.set()

    def partition_folders(self) -> list[tuple[str, int, bytes | None]]:
        """What is on disk: topic, partition, and the topic's id where it is known."""
        found = []
        for folder in sorted(self.path.iterdir()):
            match = PARTITION_FOLDER.fullmatch(folder.name)
            if match and folder.is_dir():
                found.append((match["topic"], int(match["partition"]), read_topic_id(folder)))
        return found

    def is_unused(self, topic: str, partition: int) -> bool:
        """Whether the folder of a partition that is not open holds nothing but what making it leaves."""
        return all(
            path.name in (PARTITION_METADATA, EPOCHS)
            or path.suffix == ".tmp"
            or (path.suffix in SUFFIXES and not path.stat().st_size)
            for path in (self.path / f"{topic}-{partition}").iterdir()
        )

    def delete_log(self, log: Log) -> None:
        """Removes a log for good; what a crash leaves of it is removed at the next start."""
        log.retire()
        self._forget((log.topic, log.partition))
        for path in log.folder.iterdir():
            self._pool.drop(str(path))
        shutil.rmtree(self._rename(log.folder, DELETE_SUFFIX))

    def remove(self, topic: str, partition: int) -> None:
        """Removes a partition's folder that is not open: its topic was deleted before a crash."""
        self._forget((topic, partition))
        shutil.rmtree(self._rename(self.path / f"{topic}-{partition}", DELETE_SUFFIX))

    def set_aside(self, topic: str, partition: int) -> Path:
        """Renames a folder that no topic claims, so that an operator may look at it."""
        self._forget((topic, partition))
        return self._rename(self.path / f"{topic}-{partition}", STRAY_SUFFIX)

    def checkpoint(self) -> Steps:
        """Writes recovery points, start offsets and cleaner offsets, where they changed."""
        try:
            for log in self._healthy().values():
                if log.failed is None:  # nor deleted, since the step before
                    yield from log.flush_indexes()
            self._set(RECOVERY_POINTS, {key: log.settled_offset for key, log in self._healthy().items()})
            yield from self._written(RECOVERY_POINTS)
            yield from self._persist_offsets()
            self.reserve.fill()
        except OSError as error:
            raise self.room.error_for(f"checkpoint of {self.path}", error) from error

    def close(self) -> None:
        """Makes everything durable, and leaves the marker of a clean stop if every log is sound."""
        if self._lock_fd < 0:
            return
        try:
            for log in self.logs.values():
                log.close()
            run_here(self.checkpoint())
            if self._is_sound():
                self._disk.replace_file(self.path / CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_CONTENT)
                self.journal.remove()
            else:
                failed = next((log.failed for log in self.logs.values() if log.failed is not None), None)
                logger.error(
                    "stop was not clean folder=%s, the next start checks its logs: %s", self.path, failed
                )
        except (OSError, KafkaError) as error:
            logger.error("stop was not clean folder=%s, the next start checks its logs: %s", self.path, error)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Lets go of the folder as it is, as a crash would: the next start recovers its logs."""
        if self._lock_fd >= 0:
            self.logs.clear()  # a log and its folder know each other: apart, their files are closed at once
            self._pool.clear()
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _prepare(self, folder: Path, key: Partition, topic_id: bytes) -> None:
        """Makes a new log's folder; it must not take over what is on record of a deleted one of its name."""
        if not folder.exists():
            self._gone.add(key)
            for file in self._checkpoints.values():
                file.offsets = {other: offset for other, offset in file.offsets.items() if other != key}
                file.write()
            self._disk.make_folder(folder)
        self._gone.discard(key)
        if read_topic_id(folder) != topic_id:
            write_topic_id(folder, topic_id, self._disk)

    def _known_of(self, key: Partition) -> Checkpointed:
        return Checkpointed(
            clean=self._clean,
            lost_power=self._lost_power,
            recovery_point=self._checkpoints[RECOVERY_POINTS].offsets.get(key, 0),
            start_offset=self._checkpoints[START_OFFSETS].offsets.get(key, 0),
            first_dirty_offset=self._checkpoints[CLEANER_OFFSETS].offsets.get(key),
        )

    def _is_sound(self) -> bool:
        """Whether the next start may skip recovery: no log failed, none was left unrecovered this time."""
        unopened = {(topic, partition) for topic, partition, _ in self.partition_folders()} - self.logs.keys()
        return len(self._healthy()) == len(self.logs) and (self._clean or not unopened)

    def _healthy(self) -> dict[Partition, Log]:
        return {key: log for key, log in self.logs.items() if log.failed is None}

    def _move_recovery_point(self, key: Partition, at_least: int) -> Steps:
        """Of one log, at once, unless it is there; those of the others follow with the next checkpoint."""
        log = self.logs[key]
        if self._checkpoints[RECOVERY_POINTS].offsets.get(key, 0) < at_least:
            yield from log.flush_indexes()
            if self.logs.get(key) is log:
                points = self._checkpoints[RECOVERY_POINTS].offsets
                known = {other: points[other] for other in self._healthy() if other in points}
                self._set(RECOVERY_POINTS, known | {key: log.settled_offset})
        yield from self._written(RECOVERY_POINTS)

    def _persist_offsets(self) -> Steps:
        """Where logs begin, and up to where they are compacted."""
        moved = {
            key: log.start_offset
            for key, log in self.logs.items()
            if log.start_offset > log.first_segment_offset
        }
        self._set(START_OFFSETS, moved)
        compacted = {
            key: log.first_dirty_offset
            for key, log in self._healthy().items()
            if log.first_dirty_offset is not None
        }
        self._set(CLEANER_OFFSETS, compacted)
        yield from self._written(START_OFFSETS, CLEANER_OFFSETS)

    def _set(self, name: str, offsets: dict[Partition, int]) -> None:
        """Logs not opened yet, and those that failed, keep what was known of them."""
        file = self._checkpoints[name]
        kept = {
            key: offset
            for key, offset in file.offsets.items()
            if key not in self._gone and (key not in self.logs or self.logs[key].failed is not None)
        }
        file.offsets = kept | offsets

    def _written(self, *names: str) -> Steps:
        for file in (self._checkpoints[name] for name in names):
            if not file.is_written:
                yield from step(file.write)

    def _forget(self, key: Partition) -> None:
        self.logs.pop(key, None)
        self._gone.add(key)

    def _rename(self, folder: Path, kind: str) -> Path:
        tail = f"-{folder.name.rpartition('-')[2]}.{os.urandom(16).hex()}-{kind}"
        topic = folder.name.rpartition("-")[0]
        target = self.path / (topic[: NAME_LENGTH_MAX - len(tail)] + tail)
        folder.rename(target)
        self._disk.sync_folder(self.path)
        return target


def _lock(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise DataFolderInUse(folder=path, pid=pid) from error
    os.ftruncate(fd, 0)
    with suppress(OSError):  # for people only; a full disk has no room for it
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
