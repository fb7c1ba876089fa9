"""Fetch (1), versions 4-18: read record batches, waiting for them if need be.

The first batch is sent whole even beyond the limits; a wait ends with the append that fills min_bytes.
Differs from Apache Kafka: no fetch sessions (id 0 is answered, so clients send full requests), no followers; a
client over its quota gets what was read and is then throttled, where Kafka keeps the records back.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.outbox import Chunk
from oncestream.broker.partition import Partition
from oncestream.broker.security.quota_values import CONSUMED
from oncestream.storage.files import FileSlice
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.fetch import (
    AbortedTransaction,
    CurrentLeader,
    DivergingEpoch,
    FetchedPartition,
    FetchedTopic,
    encode_fetch_response,
)
from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

READ_COMMITTED: Final = 1
NO_EPOCH: Final = -1
_IDS_FROM: Final = 13

Fetched = FetchedPartition[list[FileSlice]]


def handle(request: FetchRequest, call: Call) -> list[Chunk] | Later:
    if request.session_id != 0 and request.session_epoch > 0:
        return _encode(call, [], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    reading = Reading(request, call)
    if reading.done or request.max_wait_ms <= 0:
        return reading.answer()
    return _Wait(reading).later


class Reading:
    """One pass over the partitions of a request."""

    def __init__(self, request: FetchRequest, call: Call) -> None:
        self.request = request
        self.call = call
        self.size = 0
        self.failed = False
        self.partitions: list[Partition] = []
        size_max = _quota_room(call) if call.node.catalog.quotas else call.node.settings.fetch_bytes_max
        self._left = min(max(request.max_bytes, 0), size_max)
        self._topics = [
            FetchedTopic(topic.topic, self._read_topic(topic), topic.topic_id) for topic in request.topics
        ]

    @property
    def done(self) -> bool:
        return self.failed or self.size >= self.request.min_bytes or not self.partitions

    def answer(self) -> list[Chunk]:
        call = self.call
        if call.node.catalog.quotas:
            call.charge(CONSUMED, self.size)
        return _encode(call, self._topics)

    def _read_topic(self, topic: FetchTopic) -> list[Fetched]:
        call = self.call
        name = topic.topic if call.version < _IDS_FROM else call.node.topic_name(topic.topic_id)
        if name is None:
            self.failed = True
            return [FetchedPartition(want.partition, ErrorCode.UNKNOWN_TOPIC_ID) for want in topic.partitions]
        if call.node.authorizer is not None and not call.may(Operation.READ, ResourceType.TOPIC, name):
            self.failed = True
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return [FetchedPartition(want.partition, refused) for want in topic.partitions]
        return [self._read(name, want) for want in topic.partitions]

    def _read(self, name: str, want: FetchPartition) -> Fetched:
        partition = self.call.node.partition(name, want.partition)
        if partition is None:
            self.failed = True
            return FetchedPartition(want.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            fetched = self._read_partition(partition, want)
        except KafkaError as error:
            self.failed = True
            return _failed(self.call, partition, error)
        if fetched.diverging_epoch is not None:
            self.failed = True
        self.partitions.append(partition)
        self.size += fetched.records_size
        self._left -= fetched.records_size
        return fetched

    def _read_partition(self, partition: Partition, want: FetchPartition) -> Fetched:
        log = partition.log
        check_leader_epoch(want.current_leader_epoch, log.leader_epoch)
        diverging = _diverging(partition, want)
        stable = partition.last_stable_offset
        committed_only = self.request.isolation_level == READ_COMMITTED
        upper = stable if committed_only else partition.high_watermark
        room = min(want.partition_max_bytes, self._left)
        slices: list[FileSlice] = []
        if not log.start_offset <= want.fetch_offset <= log.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
        # Of a failed log there may be no more to read, which `read` raises.
        wanted = want.fetch_offset < upper or log.failed is not None
        if diverging is None and wanted and (room > 0 or self.size == 0):
            slices = log.read(want.fetch_offset, max(room, 0), upper, whole_first_batch=self.size == 0)
        size = sum(part.size for part in slices)
        aborted: list[AbortedTransaction] | None = [] if committed_only else None
        if committed_only and size:
            found = log.aborted(want.fetch_offset, log.end_of(slices, want.fetch_offset, upper))
            aborted = [AbortedTransaction(a.producer_id, a.first_offset) for a in found]
        return FetchedPartition(
            want.partition,
            0,
            partition.high_watermark,
            stable,
            log.start_offset,
            aborted,
            slices if size else b"",
            size,
            diverging,
        )


class _Wait:
    """A fetch that waits: an append to one of its partitions, or the deadline, ends it.

    It looks in a turn of the loop of its own, once for all appends before it: what fails there is no appender's.
    """

    def __init__(self, reading: Reading) -> None:
        self._request = reading.request
        self._call = reading.call
        self._partitions = reading.partitions
        self.later = Later()
        settings = self._call.node.settings
        wait_ms = min(self._request.max_wait_ms, settings.fetch_wait_ms_max)
        self._looks_soon = False
        self._timer = self._call.node.loop.call_later(wait_ms / 1000, self._finish)
        for partition in self._partitions:
            partition.waiters.add(self)

    def on_advance(self) -> None:
        if not self._looks_soon:
            self._looks_soon = True
            self._call.node.loop.call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        if self.later.resolved:
            return
        reading = Reading(self._request, self._call)
        if reading.done:
            self._finish(reading)

    def _finish(self, reading: Reading | None = None) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self)
        self.later.resolve((reading or Reading(self._request, self._call)).answer())


def _quota_room(call: Call) -> int:
    """What the sender's quota lets one answer carry."""
    room = call.node.quotas.room(CONSUMED, call.principal.name, call.client_id or "")
    size_max = call.node.settings.fetch_bytes_max
    return size_max if room is None else min(room, size_max)


def check_leader_epoch(told: int, ours: int) -> None:
    """Refuses a client whose view of the leader is older or newer than ours."""
    if told in (NO_EPOCH, ours):
        return
    if told < ours:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {told} is older than {ours}")
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {told} is newer than {ours}")


def _diverging(partition: Partition, want: FetchPartition) -> DivergingEpoch | None:
    """Where the client's log and ours part, if it has read records that are no longer here."""
    if want.last_fetched_epoch == NO_EPOCH:
        return None
    epoch, end = partition.log.end_offset_for_epoch(want.last_fetched_epoch)
    if epoch == NO_EPOCH or end < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
    if epoch < want.last_fetched_epoch or end < want.fetch_offset:
        return DivergingEpoch(epoch, end)
    return None


def _failed(call: Call, partition: Partition, error: KafkaError) -> Fetched:
    leader = None
    if error.code is ErrorCode.FENCED_LEADER_EPOCH:
        leader = CurrentLeader(call.node.settings.node_id, partition.log.leader_epoch)
    return FetchedPartition(
        partition.index, error.code, log_start_offset=partition.log.start_offset, current_leader=leader
    )


def _encode(call: Call, topics: list[FetchedTopic[list[FileSlice]]], error_code: int = 0) -> list[Chunk]:
    pieces = encode_fetch_response(
        call.version, call.correlation_id, topics, error_code=error_code, throttle_ms=call.throttle_ms
    )
    chunks: list[Chunk] = []
    for piece in pieces:
        if isinstance(piece, list):
            chunks.extend(piece)
        else:
            chunks.append(piece)
    return chunks
