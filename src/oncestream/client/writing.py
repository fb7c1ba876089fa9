"""Writes Arrow rows to partitions: several partitions in a request, several requests in flight."""

from __future__ import annotations

import time
from collections import deque
from typing import Final, NamedTuple

import pyarrow as pa

from oncestream.client.cluster import Cluster
from oncestream.client.connection import Connection, Sent
from oncestream.client.failures import ConnectionLost, ErrorAnswer, has_moved, may_pass, refusal
from oncestream.client.lanes import Batch, Lane
from oncestream.client.produce_frame import produce_body
from oncestream.client.retry import Retry
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import NOBODY, Producer
from oncestream.records.arrow_encode import encode_batches
from oncestream.records.batch import SEQUENCE_MAX
from oncestream.records.compression import Codec
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.produce import ProduceResponse

MIB: Final = 1024 * 1024
IN_FLIGHT_MAX: Final = 5  # a broker remembers the last five batches of a producer in a partition
REQUEST_BYTES_MAX: Final = MIB
BATCH_BYTES_MAX: Final = 1_000_000  # below Kafka's default of max.message.bytes
UNENCODED_BYTES_MAX: Final = 32 * MIB
PRODUCE_VERSION_1: Final = 11  # from 12 on partitions join the transaction by themselves

_PRODUCE: Final = ApiKey.PRODUCE.name


class Written(NamedTuple):
    """What a partition got since the last flush; offsets are -1 where the broker no longer knew them."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int


class Writer:
    """Rows of one producer. Each of its partitions must be written by no other Writer in the same epoch.

    A resend is the same bytes with the same sequence numbers, so that the broker drops what it has already.
    Without a producer, a resend may write rows twice.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        producer: Producer | None,
        transactional_id: str | None = None,
        codec: Codec = Codec.NONE,
        in_flight_max: int = IN_FLIGHT_MAX,
        request_bytes_max: int = REQUEST_BYTES_MAX,
    ) -> None:
        assert 1 <= in_flight_max <= IN_FLIGHT_MAX
        self._cluster = cluster
        self._producer = producer or NOBODY
        self._transactional_id = transactional_id
        self._codec = codec
        self._in_flight_max = in_flight_max
        self._request_bytes_max = request_bytes_max
        old = transactional_id is not None and cluster.transaction_version == 1
        self._version_max = PRODUCE_VERSION_1 if old else None
        self._lanes: dict[TopicPartition, Lane] = {}
        self._connections: dict[int, Connection] = {}
        self._in_flight: deque[_Request] = deque()
        self._unencoded_bytes = 0
        self._queued_bytes = 0
        self._failure: KafkaError | ConnectionLost | None = None
        self._retry: Retry | None = None
        self._troubled = 0

    def write(
        self, partition: TopicPartition, rows: pa.RecordBatch, *, batch_bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        """Takes rows, in their order. Columns: value, and key, timestamp and headers where there are any.

        `batch_bytes_max`: the topic's max.message.bytes, where it may be less than Kafka's default.
        """
        if not rows.num_rows:
            return
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition, min(batch_bytes_max, BATCH_BYTES_MAX))
        lane.rows.append(rows)
        size_bytes = rows.nbytes
        lane.unencoded_bytes += size_bytes
        self._unencoded_bytes += size_bytes
        if lane.unencoded_bytes >= lane.batch_bytes_max:
            self._encode(lane)
        elif self._unencoded_bytes >= UNENCODED_BYTES_MAX:
            for each in self._lanes.values():
                self._encode(each)
        self._send_queued(self._request_bytes_max)

    def flush(self) -> list[Written]:
        """Waits until everything is written; answers what each partition got since the last flush."""
        for lane in self._lanes.values():
            self._encode(lane)
        while self._queued_bytes or self._in_flight or self._failure is not None:
            self._send_queued(0)
            if self._in_flight:
                self._receive_one()
            elif self._failure is not None:
                self._recover()
        self.close()
        return [
            Written(*lane.partition, *lane.take_report()) for lane in self._lanes.values() if lane.written
        ]

    def close(self) -> None:
        """Gives back the connections; one with requests in flight is closed."""
        for connection in self._connections.values():
            self._cluster.give_back(connection)
        self._connections.clear()
        self._in_flight.clear()

    def _encode(self, lane: Lane) -> None:
        if not lane.rows:
            return
        rows = lane.rows[0] if len(lane.rows) == 1 else pa.concat_batches(lane.rows)
        encoded = encode_batches(
            rows,
            codec=self._codec,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=-1 if self._producer is NOBODY else lane.next_sequence,
            transactional=self._transactional_id is not None,
            size_bytes_max=lane.batch_bytes_max,
            now_ms=time.time_ns() // 1_000_000,
        )
        for data, count in encoded:
            lane.queue.append(Batch(lane, data, count))
            self._queued_bytes += len(data)
        lane.next_sequence = (lane.next_sequence + rows.num_rows) & SEQUENCE_MAX
        self._unencoded_bytes -= lane.unencoded_bytes
        lane.unencoded_bytes = 0
        lane.rows.clear()

    def _send_queued(self, leave_bytes: int) -> None:
        """Sends until no more than `leave_bytes` wait to be sent."""
        while self._queued_bytes > leave_bytes:
            if self._failure is not None:
                self._recover()
            elif not self._send_one() and self._failure is None:
                self._receive_one()

    def _send_one(self) -> bool:
        """One request to one broker; False where nothing may be sent before an answer comes."""
        target: int | None = None
        batches: list[Batch] = []
        size_bytes = 0
        full: set[int] = set()
        try:
            for lane in self._lanes.values():
                if not lane.may_send(self._producer is not NOBODY):
                    continue
                node = self._cluster.leader_of(lane.partition).node
                if node in full or (target is not None and node != target):
                    continue
                if target is None and self._is_full(node):
                    full.add(node)
                    continue
                if batches and size_bytes + len(lane.queue[0].data) > self._request_bytes_max:
                    continue
                target = node
                batches.append(lane.queue[0])
                size_bytes += len(lane.queue[0].data)
            if target is None:
                return False
            self._send(target, batches)
        except (KafkaError, ConnectionLost) as error:
            self._cluster.forget_leaders({lane.partition.topic for lane in self._lanes.values()})
            self._failure = error
            return False
        return True

    def _is_full(self, node: int) -> bool:
        connection = self._connections.get(node)
        return connection is not None and connection.in_flight >= self._in_flight_max

    def _send(self, node: int, batches: list[Batch]) -> None:
        connection = self._connections.get(node)
        if connection is None:
            connection = self._cluster.take(self._cluster.address_of(node))
            self._connections[node] = connection
        body = produce_body(
            self._transactional_id,
            self._cluster.settings.request_timeout_ms,
            [(batch.lane.partition, batch.data) for batch in batches],
        )
        version = connection.version_of(ApiKey.PRODUCE, self._version_max)
        for batch in batches:
            batch.lane.queue.popleft()
            batch.lane.in_flight += 1
            self._queued_bytes -= len(batch.data)
        try:
            sent = connection.send_body(ApiKey.PRODUCE, version, body)
        except ConnectionLost as error:
            self._lose(node, error)
            self._return(batches, error)
            return
        self._in_flight.append(_Request(node, sent, batches))

    def _receive_one(self) -> None:
        """The answer to the oldest request in flight."""
        node, sent, batches = self._in_flight[0]
        try:
            told = self._connections[node].receive(sent, ProduceResponse)
        except ConnectionLost as error:
            self._lose(node, error)
            return
        self._in_flight.popleft()
        by_partition = {batch.lane.partition: batch for batch in batches}
        for topic in told.responses:
            for each in topic.partition_responses:
                batch = by_partition.pop(TopicPartition(topic.name, each.index))
                self._settle(batch, each.error_code, each.base_offset, each.error_message)
        assert not by_partition, f"no answer for {list(by_partition)}"

    def _settle(self, batch: Batch, code: int, base_offset: int, message: str | None) -> None:
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch.lane.acknowledge(batch, base_offset)
            if batch.failed:
                self._troubled -= 1
                if not self._troubled:
                    self._retry = None
            return
        lane = batch.lane
        error = ErrorAnswer(code, lane.partition, message)
        if has_moved(error):
            self._cluster.forget_leaders([lane.partition.topic])
        # What follows a batch that was refused is out of order until that one is there.
        follows = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and bool(lane.returned)
        if not follows and not may_pass(error):
            self.close()
            subject = self._transactional_id or lane.partition
            raise refusal(_PRODUCE, ErrorAnswer(code, subject, f"{lane.partition}: {message}")) from error
        self._return([batch], error)

    def _lose(self, node: int, error: ConnectionLost) -> None:
        """Everything in flight to that broker has to be sent again: it may or may not have been written."""
        self._connections.pop(node).close()
        lost = [request for request in self._in_flight if request.node == node]
        self._in_flight = deque(request for request in self._in_flight if request.node != node)
        for request in lost:
            self._return(request.batches, error)

    def _return(self, batches: list[Batch], error: KafkaError | ConnectionLost) -> None:
        for batch in batches:
            batch.lane.in_flight -= 1
            batch.lane.returned.append(batch)
            if not batch.failed:
                batch.failed = True
                self._troubled += 1
        if has_moved(error):
            self._cluster.forget_leaders({batch.lane.partition.topic for batch in batches})
        if self._failure is None:
            self._failure = error

    def _recover(self) -> None:
        """After a failure: waits for all answers, puts what failed back in its order, pauses."""
        while self._in_flight:
            self._receive_one()
        for lane in self._lanes.values():
            self._queued_bytes += lane.put_back()
        failure, self._failure = self._failure, None
        assert failure is not None
        if self._retry is None:
            self._retry = self._cluster.retry()
        self._retry.again_after(_PRODUCE, failure)


class _Request(NamedTuple):
    node: int
    sent: Sent
    batches: list[Batch]
