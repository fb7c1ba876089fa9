"""The small text files of a data folder, in Apache Kafka's formats."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from oncestream.storage.disk import Disk

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CHECKPOINT_VERSION: Final = 0
NODE_ID: Final = 1

Partition = tuple[str, int]


class FolderIdentity(NamedTuple):
    """Who a data folder belongs to; made once, when the folder is new."""

    cluster_id: str
    directory_id: str
    node_id: int


def read_lines(path: Path) -> list[str] | None:
    """The entries of a checkpoint file; None if it is missing or damaged, which costs a longer start."""
    try:
        lines = path.read_text().splitlines()
        if int(lines[0]) != CHECKPOINT_VERSION or int(lines[1]) != len(lines) - 2:
            return None
    except (FileNotFoundError, ValueError, IndexError):
        return None
    return lines[2:]


def lines_of(entries: list[str]) -> bytes:
    return "\n".join([str(CHECKPOINT_VERSION), str(len(entries)), *entries, ""]).encode()


def read_offsets(path: Path) -> dict[Partition, int]:
    offsets: dict[Partition, int] = {}
    for line in read_lines(path) or []:
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            continue
    return offsets


class OffsetsFile:
    """A checkpoint file. One thread says what it should hold, any thread writes it; the newest content wins."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.offsets: Mapping[Partition, int] = read_offsets(path)  # replaced, never changed
        self._written: Mapping[Partition, int] | None = self.offsets if path.exists() else None
        self._path = path
        self._disk = disk
        self._writing = Lock()

    @property
    def is_written(self) -> bool:
        return self._written == self.offsets

    def write(self) -> None:
        with self._writing:
            offsets = self.offsets
            if offsets == self._written:
                return
            self._written = None  # if it fails, nobody knows what is there
            lines = [
                f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())
            ]
            self._disk.replace_file(self._path, lines_of(lines))
            self._written = offsets


def read_topic_id(folder: Path) -> bytes | None:
    try:
        lines = (folder / PARTITION_METADATA).read_text().splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return decode_uuid(fields["topic_id"])
    except (FileNotFoundError, KeyError, ValueError):
        return None


def write_topic_id(folder: Path, topic_id: bytes, disk: Disk) -> None:
    disk.replace_file(folder / PARTITION_METADATA, f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode())


def read_or_make_identity(folder: Path, disk: Disk) -> FolderIdentity:
    path = folder / META_PROPERTIES
    try:
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        fields = dict(line.split("=", 1) for line in lines)
        return FolderIdentity(fields["cluster.id"], fields["directory.id"], int(fields["node.id"]))
    except FileNotFoundError:
        identity = FolderIdentity(encode_uuid(os.urandom(16)), encode_uuid(os.urandom(16)), NODE_ID)
    content = (
        f"version=1\ncluster.id={identity.cluster_id}\ndirectory.id={identity.directory_id}\n"
        f"node.id={identity.node_id}\n"
    )
    disk.replace_file(path, content.encode())
    return identity


def encode_uuid(raw: bytes) -> str:
    """Kafka's spelling of a UUID: base64, safe in names, without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_uuid(text: str) -> bytes:
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no UUID")
    return raw
