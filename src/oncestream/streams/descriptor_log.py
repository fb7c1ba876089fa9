"""The topic `oncestream.streams`: the newest record of each stream, read in whole, written with lost updates seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.failures import ConnectionLost, has_moved, raise_if_error
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.client.retry import until_done
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import StreamChanged, TooManyStreams
from oncestream.records.batch import HEADER_SIZE, parse_header
from oncestream.records.records import Record, build_batch, records_of
from oncestream.streams.descriptor import Descriptor, decode
from oncestream.streams.names import StreamPath
from oncestream.streams.permissions import let_everyone_read
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncestream.wire.schema import Message

M = TypeVar("M", bound=Message)

TOPIC: Final = "oncestream.streams"
HERE: Final = TopicPartition(TOPIC, 0)
RECORDS_MAX: Final = 100_000

_ALL_REPLICAS: Final = -1
_NO_SESSION: Final = -1


class Snapshot(NamedTuple):
    """The newest record of each path, by its text, and the offset up to which was read."""

    values: dict[str, bytes]
    end: int

    def find(self, path: StreamPath) -> Descriptor | None:
        value = self.values.get(path.text)
        return None if value is None else decode(path, value)


def read_snapshot(cluster: Cluster, records_max: int = RECORDS_MAX) -> Snapshot:
    if not _exists(cluster):
        return Snapshot({}, 0)
    start, end = (
        list_offsets(cluster, {HERE: place}, read_committed=False)[HERE] or 0 for place in (EARLIEST, LATEST)
    )
    values: dict[str, bytes] = {}
    for count, record in enumerate(_records(cluster, start, end)):
        if count >= records_max:
            raise TooManyStreams(topic=TOPIC, limit=records_max)
        key = (record.key or b"").decode(errors="replace")
        if record.value is None:
            values.pop(key, None)
        else:
            values[key] = record.value
    return Snapshot(values, end)


def write_descriptor(cluster: Cluster, new: Descriptor, seen: Snapshot) -> Snapshot:
    """Stores it; answers what is known now. StreamChanged where somebody else has stored another since `seen`."""
    _make_topic(cluster)
    value = new.encode()
    end = _append(cluster, new.path, value, seen)
    return Snapshot({**seen.values, new.path.text: value}, end)


def erase_descriptor(cluster: Cluster, path: StreamPath, seen: Snapshot) -> None:
    _append(cluster, path, None, seen)


def _append(cluster: Cluster, path: StreamPath, value: bytes | None, seen: Snapshot) -> int:
    """The offset after the new record, if it took the place of the one that was seen.

    Else what it took the place of is put back: a log has no other way to say "only if nobody else wrote".
    """
    offset = _produce(cluster, path, value)
    missed = _last_of(cluster, path, seen.end, offset)
    # The same bytes are our own, sent twice because the first answer was lost, or what somebody put back.
    if missed is None or missed.value in (value, seen.values.get(path.text)):
        return offset + 1
    while missed is not None:
        put_back = _produce(cluster, path, missed.value)
        missed, offset = _last_of(cluster, path, offset + 1, put_back), put_back
    raise StreamChanged(path=path)


def _last_of(cluster: Cluster, path: StreamPath, start: int, end: int) -> Record | None:
    key = path.text.encode()
    found = [record for record in _records(cluster, start, end) if record.key == key]
    return found[-1] if found else None


def _produce(cluster: Cluster, path: StreamPath, value: bytes | None) -> int:
    """The offset of the new record."""
    record = Record(0, int(time.time() * 1000), path.text.encode(), value)
    data = PartitionProduceData(index=HERE.partition, records=memoryview(build_batch([record])))
    request = ProduceRequest(
        acks=_ALL_REPLICAS,
        timeout_ms=cluster.settings.request_timeout_ms,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )

    def check(told: ProduceResponse) -> None:
        answer = told.responses[0].partition_responses[0]
        raise_if_error(answer.error_code, HERE, answer.error_message)

    told = _ask_leader(cluster, request, ProduceResponse, check)
    return told.responses[0].partition_responses[0].base_offset


def _records(cluster: Cluster, start: int, end: int) -> Iterator[Record]:
    position = start
    while position < end:
        answer = _fetch(cluster, position)
        at = 0
        while at + HEADER_SIZE <= len(answer):
            header = parse_header(answer, at)
            if at + header.size_bytes > len(answer):
                break
            if not header.is_control:
                for record in records_of(answer[at : at + header.size_bytes], header):
                    if position <= record.offset < end:
                        yield record
            at += header.size_bytes
            position = max(position, header.next_offset)


def _fetch(cluster: Cluster, position: int) -> memoryview:
    """At least one whole batch."""
    settings = cluster.settings
    wanted = FetchPartition(
        partition=HERE.partition,
        fetch_offset=position,
        partition_max_bytes=settings.partition_fetch_bytes_max,
    )
    request = FetchRequest(
        max_wait_ms=settings.fetch_wait_ms_max,
        min_bytes=1,
        max_bytes=settings.fetch_bytes_max,
        session_epoch=_NO_SESSION,
        topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
    )

    def check(told: FetchResponse) -> None:
        raise_if_error(told.error_code, HERE)
        data = told.responses[0].partitions[0]
        raise_if_error(data.error_code, HERE)
        if not data.records or parse_header(data.records).size_bytes > len(data.records):
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{HERE}: no batch at offset {position} yet")

    told = _ask_leader(cluster, request, FetchResponse, check)
    return memoryview(told.responses[0].partitions[0].records or b"")


def _ask_leader(cluster: Cluster, request: Message, answer: type[M], check: Callable[[M], object]) -> M:
    def attempt() -> M:
        try:
            with cluster.connection_to(cluster.leader_of(HERE).node) as connection:
                told = connection.ask(request, answer)
            check(told)
        except (KafkaError, ConnectionLost) as error:
            if has_moved(error):
                cluster.forget_leaders([TOPIC])
            raise
        return told

    return until_done(attempt, cluster.retry(), ApiKey(request.__api_key__).name)


def _exists(cluster: Cluster) -> bool:
    """Asked by name, without the wait for a topic that may just have been made."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)

    def attempt() -> bool:
        code = cluster.ask_any(request, MetadataResponse).topics[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise_if_error(code, TOPIC)
        return True

    return until_done(attempt, cluster.retry(), ApiKey.METADATA.name)


def _make_topic(cluster: Cluster) -> None:
    """On first use. Everyone may read what streams there are."""
    if not _exists(cluster):
        let_everyone_read(cluster, TOPIC)
        create_topics(cluster, [NewTopic(TOPIC, 1, configs={"cleanup.policy": "compact"})], exist_ok=True)
