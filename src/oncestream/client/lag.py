"""How far groups are behind: in committed records, up to the last stable offset, and in seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.damage import DAMAGE, OnDamage, check_count, damage_of
from oncestream.client.failures import refusal
from oncestream.client.fetching import fetch_answers, fetch_request
from oncestream.client.leaders import ask_leaders
from oncestream.client.offsets import EARLIEST, LATEST, Committed, committed_offsets, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import UnknownTopic
from oncestream.records.batch import HEADER_SIZE, BatchHeader, parse_header
from oncestream.records.records import records_of
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionData,
)

# What one call may read, for all partitions together; what lies behind that is estimated from the offsets.
READ_BYTES_MAX: Final = 16 * 1024 * 1024
FETCH_BYTES_MIN: Final = 64 * 1024
# How often a topic may be deleted under the hands of one call.
DELETIONS_MAX: Final = 3


class PartitionLag(NamedTuple):
    """What a group has yet to read of a partition.

    `end` is the last stable offset. `records` leaves out transaction markers and aborted records; where not all
    of them could be read it is counted by offsets from there on, and not `exact`. `seconds` is the age of the
    oldest unread record by its own timestamp, 0 where there is none, None where it was not found.
    """

    committed: int
    end: int
    records: int
    exact: bool
    seconds: float | None
    metadata: str


def group_lags(
    cluster: Cluster,
    group: str,
    *,
    read_bytes_max: int = READ_BYTES_MAX,
    on_damage: OnDamage | None = None,
) -> dict[TopicPartition, PartitionLag]:
    """Of each partition that the group has committed an offset of, and that still is there.

    Offsets of a transaction that has not ended do not count yet. Behind a damaged batch, of which `on_damage` is
    told, the lag is counted by offsets, and so is not exact.
    """
    committed = committed_offsets(cluster, group, stable=False)
    for _ in range(DELETIONS_MAX):
        try:
            return _lags(cluster, committed, read_bytes_max, on_damage)
        except UnknownTopic:
            continue  # deleted since it was listed: the next list does not have it
    return _lags(cluster, committed, read_bytes_max, on_damage)


def _lags(
    cluster: Cluster,
    committed: Mapping[TopicPartition, Committed],
    read_bytes_max: int,
    on_damage: OnDamage | None,
) -> dict[TopicPartition, PartitionLag]:
    there = {
        TopicPartition(str(topic.name), each.partition_index)
        for topic in (cluster.metadata(None) if committed else ())
        for each in topic.partitions
    }
    wanted = sorted(committed.keys() & there)
    ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST))
    starts = list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    counts = {at: _Count(max(committed[at].offset, starts[at] or 0), ends[at] or 0) for at in wanted}
    _read(cluster, counts, read_bytes_max)
    for at, count in counts.items():
        if count.damage is not None and on_damage is not None:
            on_damage(damage_of(at, *count.damage))
    now_ms = time.time() * 1000
    return {
        at: PartitionLag(
            committed[at].offset,
            count.end,
            count.records + count.rest,
            count.rest == 0,
            count.seconds(now_ms),
            committed[at].metadata,
        )
        for at, count in counts.items()
    }


def total_records(lags: Mapping[TopicPartition, PartitionLag]) -> int | None:
    """Over all partitions; None where the group has committed nothing."""
    return sum(lag.records for lag in lags.values()) if lags else None


@dataclass(slots=True)
class _Count:
    """How far the batches of a partition are counted."""

    position: int
    end: int
    records: int = 0
    oldest_ms: int | None = None
    damage: tuple[BatchHeader, str] | None = None  # a batch that cannot be read, and why

    @property
    def rest(self) -> int:
        """Offsets that were not looked at."""
        return max(0, self.end - self.position)

    def seconds(self, now_ms: float) -> float | None:
        if self.oldest_ms is None:
            return None if self.rest else 0.0
        return max(0.0, (now_ms - self.oldest_ms) / 1000)

    def take(self, data: PartitionData) -> None:
        """Counts the whole batches of an answer; their records are not looked at, but for the first ones."""
        records = memoryview(data.records or b"")
        aborted = _Aborted(data)
        at = 0
        while at + HEADER_SIZE <= len(records) and self.position < self.end:
            header = parse_header(records, at)
            batch = records[at : at + header.size_bytes]
            at += max(header.size_bytes, HEADER_SIZE)
            if at > len(records):
                return
            if header.base_offset >= self.end:
                self.position = self.end
            elif header.next_offset > self.position:
                if not aborted.hides(header):
                    try:
                        self._take_batch(header, batch)
                    except KafkaError as error:
                        if error.code not in DAMAGE:
                            raise
                        self.damage = header, error.message
                        return
                self.position = header.next_offset

    def _take_batch(self, header: BatchHeader, batch: memoryview) -> None:
        check_count(header)
        if self.oldest_ms is None or header.base_offset < self.position:
            self._take_first(header, batch)
        else:
            self.records += header.count

    def _take_first(self, header: BatchHeader, batch: memoryview) -> None:
        """The batch may begin before the committed offset, and compaction may have left gaps in it."""
        unread = [record.timestamp for record in records_of(batch, header) if record.offset >= self.position]
        self.records += len(unread)
        if unread and self.oldest_ms is None:
            self.oldest_ms = unread[0]


class _Aborted:
    """Which batches of one fetch answer belong to aborted transactions, or are markers."""

    def __init__(self, data: PartitionData) -> None:
        self._coming = sorted(
            ((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()), reverse=True
        )
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """To be asked of every batch, in order."""
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open.add(self._coming.pop()[1])
        if header.is_control:
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _read(cluster: Cluster, counts: Mapping[TopicPartition, _Count], bytes_max: int) -> None:
    """Fetches until everything is counted, or so much has been read, or nothing more comes."""
    left_bytes = bytes_max
    waiting = [at for at, count in counts.items() if count.rest]
    while waiting and left_bytes > 0:
        each_bytes = max(FETCH_BYTES_MIN, left_bytes // len(waiting))
        positions = {at: counts[at].position for at in waiting}
        build = partial(_request, size_bytes=each_bytes)
        answers = ask_leaders(cluster, positions, build, FetchResponse, fetch_answers)
        for at, data in answers.items():
            left_bytes -= len(data.records or b"")
            try:
                counts[at].take(data)
            except KafkaError as error:
                raise refusal(ApiKey.FETCH.name, error) from error
        # Those whose turn did not come, since an answer was full before, are the first next time.
        waiting = [at for at in waiting if counts[at].damage is None]
        still = [at for at in waiting if counts[at].position == positions[at]]
        if len(still) == len(positions):
            return
        moved = [at for at in waiting if counts[at].position > positions[at]]
        waiting = [at for at in (*still, *moved) if counts[at].rest]


def _request(positions: Mapping[TopicPartition, int], size_bytes: int) -> FetchRequest:
    return fetch_request(
        positions,
        partition_bytes_max=size_bytes,
        bytes_max=size_bytes * len(positions),
        bytes_min=0,
        wait_ms_max=0,
        read_committed=True,
    )
