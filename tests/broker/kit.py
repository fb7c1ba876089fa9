"""Parts that broker tests share: a client that speaks plain bytes, batches to send, a way to wait."""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, TypeVar

from oncestream.broker.embedded import Broker
from oncestream.broker.runner import run_broker
from oncestream.broker.server import SWEEP_SECONDS
from oncestream.broker.settings import BrokerSettings
from oncestream.records.batch import parse_header
from oncestream.records.compression import Codec
from oncestream.records.records import Record, build_batch, records_of
from oncestream.storage.disk import REAL_DISK, Disk
from oncestream.wire.api import response_header_version
from oncestream.wire.codec import decode, encode
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.header import decode_response_header, encode_request_header
from oncestream.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncestream.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from oncestream.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncestream.wire.schema import Message

TIMEOUT_S: Final = 20.0
CLIENT_ID: Final = "kit"
PRODUCE_VERSION: Final = 12  # the newest that names topics
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 12
NEW_NAME: Final = itertools.count()

_LENGTH: Final = struct.Struct(">i")

M = TypeVar("M", bound=Message)


class ClosedByBrokerError(Exception):
    """The broker closed the connection."""


class BrokerInThread(Broker):
    """A broker in a thread of this process, with parts that are no settings."""

    def __init__(
        self, data: Path, *, disk: Disk = REAL_DISK, sweep_s: float = SWEEP_SECONDS, **settings: Any
    ) -> None:
        super().__init__(data, **settings)
        self._disk = disk
        self._sweep_s = sweep_s

    async def _serve(
        self, settings: BrokerSettings, stop: asyncio.Event, on_ready: Callable[[str], None]
    ) -> None:
        await run_broker(settings, stop, on_ready, self._disk, sweep_s=self._sweep_s)


class Wire:
    """One connection. Requests may be pipelined; answers are read in their order."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S, receive_buffer: int = 0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout_s)
        try:
            self.sock.connect((host, int(port)))
        except BaseException:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def ask(self, request: Message, version: int, answer: type[M]) -> M:
        self.send(request, version)
        return self.receive(answer, version)

    def send(self, request: Message, version: int) -> int:
        """Answers the correlation id."""
        self._last_id += 1
        self.sock.sendall(frame_of(request, version, self._last_id))
        return self._last_id

    def receive(self, answer: type[M], version: int) -> M:
        return self.receive_numbered(answer, version)[1]

    def receive_numbered(self, answer: type[M], version: int) -> tuple[int, M]:
        """The answer with its correlation id; bytes left over are an error."""
        frame = self.receive_frame()
        flexible = bool(response_header_version(answer.__api_key__, version))
        correlation_id, position = decode_response_header(frame, flexible)
        message = decode(answer, frame, version, position)
        assert bytes(frame[position:]) == encode(message, version)
        return correlation_id, message

    def receive_frame(self) -> bytes:
        (size,) = _LENGTH.unpack(self._receive_bytes(_LENGTH.size))
        return self._receive_bytes(size)

    def wait_closed(self) -> bytes:
        """Reads until the broker closes the connection; what came before."""
        rest = bytearray()
        try:
            while data := self.sock.recv(65536):
                rest += data
        except ConnectionResetError:
            pass
        return bytes(rest)

    def _receive_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.sock.recv(size - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise ClosedByBrokerError(f"{len(data)} of {size} bytes came")
            data += piece
        return bytes(data)


def frame_of(request: Message, version: int, correlation_id: int = 1, client_id: str = CLIENT_ID) -> bytes:
    """A request with its length and header."""
    header = encode_request_header(request.__api_key__, version, correlation_id, client_id)
    body = encode(request, version)
    return _LENGTH.pack(len(header) + len(body)) + header + body


def framed(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def batch(
    *values: bytes | None,
    key: bytes | None = b"key",
    timestamp_ms: int | None = None,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    codec: Codec = Codec.NONE,
) -> bytes:
    """What a producer would send."""
    at = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    records = [Record(number, at, key, value) for number, value in enumerate(values)]
    if producer_id < 0:
        return bytes(build_batch(records, codec=codec))
    return bytes(
        build_batch(
            records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
    )


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, timeout_ms: int = 15_000
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(
    wire: Wire, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1
) -> PartitionProduceResponse:
    """One batch to one partition; what that partition answers."""
    request = produce_request(topic, records, partition=partition, acks=acks)
    return wire.ask(request, PRODUCE_VERSION, ProduceResponse).responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 26,
    partition_bytes: int = 1 << 26,
    leader_epoch: int = -1,
    fetched_epoch: int = -1,
) -> FetchRequest:
    want = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_bytes,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=fetched_epoch,
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[want])],
    )


def fetch(wire: Wire, request: FetchRequest) -> PartitionData:
    """What the one partition of the request answers."""
    answer = wire.ask(request, FETCH_VERSION, FetchResponse)
    assert answer.error_code == 0, answer
    return answer.responses[0].partitions[0]


def values_of(records: bytes | bytearray | memoryview | None) -> list[bytes | None]:
    """The values in fetched bytes; a batch cut off at their end is left out, as clients do."""
    values: list[bytes | None] = []
    for one in batches_in(bytes(records or b"")):
        values += [record.value for record in records_of(one)]
    return values


def batches_in(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 12 and len(data) >= (size := 12 + _LENGTH.unpack_from(data, 8)[0]):
        found.append(data[:size])
        data = data[size:]
    return found


def codecs_of(bootstrap: str, topic: str, partitions: int) -> set[Codec]:
    """How the records of a topic are compressed where they are kept; markers are not."""
    with Wire(bootstrap) as wire:
        fetched = [fetch(wire, fetch_request(topic, partition=each)) for each in range(partitions)]
    headers = [parse_header(one) for each in fetched for one in batches_in(bytes(each.records or b""))]
    return {header.codec for header in headers if not header.is_control}


def new_name() -> str:
    return f"raw-{os.getpid()}-{next(NEW_NAME)}"


def create_topic(
    wire: Wire, name: str | None = None, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> MetadataResponseTopic:
    """Makes a topic and waits until it can be used: on Apache Kafka that takes a moment."""
    name = name or new_name()
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)
    made = wire.ask(request, 7, CreateTopicsResponse).topics[0]
    assert made.error_code == 0, made

    def usable() -> bool:
        probes = (fetch_request(name, partition=index) for index in range(partitions))
        known = metadata(wire, [name])[0]
        return known.error_code == 0 and all(fetch(wire, probe).error_code == 0 for probe in probes)

    wait_until(usable)
    return metadata(wire, [name])[0]


def metadata(wire: Wire, names: Sequence[str], *, create: bool = False) -> list[MetadataResponseTopic]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )
    return wire.ask(request, METADATA_VERSION, MetadataResponse).topics


def is_readable(source: socket.socket | IO[str], timeout_s: float) -> bool:
    """As `select.select`, which takes no descriptor above 1023: a test run may have more open."""
    poller = select.poll()
    poller.register(source, select.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def wait_until(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def error_name(code: int) -> str:
    return ErrorCode(code).name
