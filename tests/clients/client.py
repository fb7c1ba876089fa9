"""What every real client is asked to do, in one vocabulary: a behaviour is one test for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

TIMEOUT_S: Final = 30
REQUEST_BYTES_MAX: Final = 16 << 20


class Message(NamedTuple):
    """A record to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0


class Received(NamedTuple):
    """A record as consumed."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Cluster(NamedTuple):
    """What DescribeCluster or Metadata says."""

    id: str | None
    controller: int
    nodes: list[tuple[int, str, int]]


class RefusedError(Exception):
    """The broker answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


class Client(Protocol):
    """A real client library against one cluster."""

    def __init__(self, bootstrap: str) -> None: ...

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str = "none",
        acks: int = -1,
        idempotent: bool = True,
    ) -> list[int]:
        """Offsets of the messages, in their order; with acks=0 they mean nothing."""

    def consume(self, topic: str, positions: Mapping[int, int], count: int) -> list[Received]:
        """Assign the partitions, seek to the positions, read until there are `count` records."""

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Received]:
        """Subscribe, read from the committed offsets (else the start) `count` records, commit, leave."""

    def committed(self, topic: str, group: str, partition: int) -> int | None: ...

    def earliest(self, topic: str, partition: int = 0) -> int: ...

    def latest(self, topic: str, partition: int = 0) -> int: ...

    def offset_at(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """Offset of the first record at or after the timestamp; None where there is none."""

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def create_partitions(self, topic: str, total: int) -> None: ...

    def topics(self) -> dict[str, int]:
        """Names of all topics with their number of partitions."""

    def topic_config(self, topic: str) -> dict[str, str | None]: ...

    def alter_config(self, topic: str, config: Mapping[str, str]) -> None:
        """AlterConfigs: what is not named goes back to its default."""

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        """The partition's new low watermark."""

    def cluster(self) -> Cluster: ...
