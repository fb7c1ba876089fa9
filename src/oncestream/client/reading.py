"""Reads ranges of partitions as Arrow: over transaction markers, aborted data and gaps of compaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from oncestream.client.cluster import Cluster
from oncestream.client.connection import Connection, Sent
from oncestream.client.damage import DAMAGE, first_damage
from oncestream.client.failures import ConnectionLost, ErrorAnswer, has_moved, raise_if_error, refusal
from oncestream.client.fetching import fetch_request
from oncestream.client.leaders import by_leader
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import DataLost
from oncestream.records.arrow_decode import Decoded, decode_batches
from oncestream.records.batch import HEADER_SIZE, parse_header
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncestream.wire.schema import Buffer

FETCH_VERSION: Final = 12

_FETCH: Final = ApiKey.FETCH.name


def read_range(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool = True,
    headers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Every visible record with start <= offset < end, in order. DataLost where the log no longer has them.

    PartitionDamaged, after all that lies before it, where a batch cannot be read. The next piece is fetched while
    the last one is decoded and used.
    """
    position = start
    fetcher = _Fetcher(cluster, partition, read_committed)
    try:
        while position < end:
            data = fetcher.answer(position)
            following = _next_offset(data.records, position)
            if following < end:
                fetcher.ask(following)
            batch, position = _decode(partition, data, position, end, read_committed, headers)
            if position != following:
                fetcher.close()  # what was asked for lies behind a damaged batch
            if batch.num_rows:
                yield batch
    finally:
        fetcher.close()


def read_many(
    cluster: Cluster,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    *,
    read_committed: bool = True,
    headers: bool = False,
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """As `read_range`, of small ranges of many partitions, in as few requests as possible."""
    positions = {partition: start for partition, (start, end) in ranges.items() if start < end}
    retry = cluster.retry()
    while positions:
        failure: KafkaError | ConnectionLost | None = None
        moved_on = False
        try:
            for partition, data in _fetch_all(cluster, positions, read_committed):
                position, end = positions.pop(partition), ranges[partition][1]
                try:
                    _check(partition, position, data)
                except ErrorAnswer as error:
                    failure = error
                    if has_moved(error):
                        cluster.forget_leaders([partition.topic])
                    positions[partition] = position
                    continue
                batch, following = _decode(partition, data, position, end, read_committed, headers)
                moved_on = True
                if following < end:
                    positions[partition] = following  # now the last one, so that all get their turn
                if batch.num_rows:
                    yield partition, batch
        except (KafkaError, ConnectionLost) as error:
            cluster.forget_leaders(partition.topic for partition in positions)
            failure = error
        if moved_on:
            retry = cluster.retry()
        elif failure is not None:
            retry.again_after(_FETCH, failure)


class _Fetcher:
    """One partition, one request at a time, sent before its answer is needed."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, read_committed: bool) -> None:
        self._cluster = cluster
        self._partition = partition
        self._read_committed = read_committed
        self._connection: Connection | None = None
        self._sent: Sent | None = None

    def ask(self, position: int) -> None:
        """Sends a fetch. A failure is left to `answer`, which tries again."""
        try:
            self._send(position)
        except (KafkaError, ConnectionLost):
            self.close()

    def answer(self, position: int) -> PartitionData:
        """What lies at `position`: at least one whole batch. The data are good until the next call."""
        retry = self._cluster.retry()
        while True:
            try:
                if self._sent is None:
                    self._send(position)
                connection, sent, self._sent = self._connection, self._sent, None
                assert connection is not None
                assert sent is not None
                told = connection.receive(sent, FetchResponse, reuse=True)
                raise_if_error(told.error_code, self._partition)
                data = told.responses[0].partitions[0]
                _check(self._partition, position, data)
                return data
            except (KafkaError, ConnectionLost) as error:
                if has_moved(error):
                    self.close()
                    self._cluster.forget_leaders([self._partition.topic])
                retry.again_after(_FETCH, error)

    def close(self) -> None:
        if self._connection is not None:
            self._cluster.give_back(self._connection)
        self._connection = self._sent = None

    def _send(self, position: int) -> None:
        if self._connection is None:
            node = self._cluster.leader_of(self._partition).node
            self._connection = self._cluster.take(self._cluster.address_of(node))
        request = _request(self._cluster, {self._partition: position}, self._read_committed)
        self._sent = self._connection.send(request, version_max=FETCH_VERSION)


def _fetch_all(
    cluster: Cluster, positions: Mapping[TopicPartition, int], read_committed: bool
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """One fetch to every leader at once; then their answers, one after another."""
    asked: list[tuple[Connection, Sent]] = []
    try:
        for node, part in by_leader(cluster, positions).items():
            connection = cluster.take(cluster.address_of(node))
            sent = connection.send(_request(cluster, part, read_committed), version_max=FETCH_VERSION)
            asked.append((connection, sent))
        for connection, sent in asked:
            told = connection.receive(sent, FetchResponse, reuse=True)
            raise_if_error(told.error_code, connection.address)
            for topic in told.responses:
                for data in topic.partitions:
                    yield TopicPartition(topic.topic, data.partition_index), data
    finally:
        for connection, _ in asked:
            cluster.give_back(connection)


def _request(cluster: Cluster, positions: Mapping[TopicPartition, int], read_committed: bool) -> FetchRequest:
    settings = cluster.settings
    return fetch_request(
        positions,
        partition_bytes_max=settings.partition_fetch_bytes_max,
        bytes_max=settings.fetch_bytes_max,
        bytes_min=1,
        wait_ms_max=settings.fetch_wait_ms_max,
        read_committed=read_committed,
    )


def _check(partition: TopicPartition, position: int, data: PartitionData) -> None:
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise DataLost(
            topic=partition.topic,
            partition=partition.partition,
            offset=position,
            reason="the log does not hold it",
        )
    raise_if_error(data.error_code, partition)
    if not data.records or _next_offset(data.records, position) == position:
        waits = (
            f"nothing at offset {position}: stable up to {data.last_stable_offset} of {data.high_watermark}"
        )
        raise ErrorAnswer(ErrorCode.OFFSET_NOT_AVAILABLE, partition, waits)


def _decode(
    partition: TopicPartition,
    data: PartitionData,
    start: int,
    end: int,
    read_committed: bool,
    headers: bool,
) -> Decoded:
    """Up to a damaged batch, if there is one; PartitionDamaged if that is the first."""
    aborted: Iterable[tuple[int, int]] = [
        (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
    ]
    assert data.records is not None
    decode = partial(
        decode_batches,
        start_offset=start,
        end_offset=end,
        aborted=aborted,
        read_committed=read_committed,
        headers=headers,
    )
    try:
        return decode(data.records)
    except KafkaError as error:
        found = first_damage(partition, data.records) if error.code in DAMAGE else None
        if found is None:
            raise refusal(_FETCH, error) from error
        position, damage = found
        if not position:
            raise damage from error
        return decode(memoryview(data.records)[:position])


def _next_offset(records: Buffer | None, position: int) -> int:
    """The first offset after the whole batches in `records`: cheaper than decoding them."""
    if records is None:
        return position
    at, following = 0, position
    while at + HEADER_SIZE <= len(records):
        header = parse_header(records, at)
        at += max(header.size_bytes, HEADER_SIZE)
        if at <= len(records):
            following = max(following, header.next_offset)
    return following
