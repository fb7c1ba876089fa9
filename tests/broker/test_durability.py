"""When a record is acknowledged and when it is visible, on a disk whose sync blocks or fails on command."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.handlers import fetch, list_offsets, produce
from oncestream.broker.later import Later
from oncestream.broker.node import Node
from oncestream.broker.outbox import Chunk
from oncestream.broker.plain_produce import produce_plain
from oncestream.broker.settings import load_settings
from oncestream.storage.disk import Disk
from oncestream.storage.files import FileSlice
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import decode, encode
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.header import encode_request_header
from oncestream.wire.messages.fetch import FetchResponse, PartitionData
from oncestream.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncestream.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from oncestream.wire.produce import read_plain
from tests.broker.kit import (
    FETCH_VERSION,
    METADATA_VERSION,
    PRODUCE_VERSION,
    TIMEOUT_S,
    BrokerInThread,
    Wire,
    batch,
    create_topic,
    fetch_request,
    is_readable,
    metadata,
    produce_request,
    wait_until,
)
from tests.broker.kit import values_of as values_in

TOPIC = "events"
Produced = ProduceResponse | list[Chunk] | Later
Way = Callable[[ProduceRequest, Call], Produced | None]


class GatedDisk(Disk):
    """A sync waits while the gate is shut, and fails on command."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self._gate.set()
        self.syncs = 0
        self.failing = False

    def shut(self) -> None:
        self.syncs = 0
        self._gate.clear()

    def open(self) -> None:
        self._gate.set()

    def sync(self, fd: int) -> None:
        self.syncs += 1
        assert self._gate.wait(TIMEOUT_S)
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)


def in_short(request: ProduceRequest, call: Call) -> Produced | None:
    header = encode_request_header(ApiKey.PRODUCE, call.version, call.correlation_id, "test")
    plain = read_plain(memoryview(bytearray(header + encode(request, call.version))))
    assert plain is not None
    return produce_plain(plain, call.node, call)


@pytest.fixture(params=[produce.handle, in_short], ids=["general", "plain"])
def way(request: pytest.FixtureRequest) -> Way:
    """Produce takes the general way or the short one: no client can tell which."""
    chosen: Way = request.param
    return chosen


class Setup(NamedTuple):
    """A node with one topic of one partition, the gate of its disk shut."""

    node: Node
    disk: GatedDisk
    way: Way

    def produce(
        self, value: bytes, acks: int = -1, timeout_ms: int = 60_000, records: bytes | None = None
    ) -> Produced:
        request = produce_request(TOPIC, records or batch(value), acks=acks, timeout_ms=timeout_ms)
        answer = self.way(request, self.call(PRODUCE_VERSION))
        assert answer is not None
        return answer

    def visible(self, offset: int = 0) -> PartitionData:
        chunks = fetch.handle(fetch_request(TOPIC, offset), self.call(FETCH_VERSION))
        assert isinstance(chunks, list)
        return self.fetched(chunks)

    def long_poll(self, offset: int = 0) -> Later:
        later = fetch.handle(fetch_request(TOPIC, offset, wait_ms=60_000), self.call(FETCH_VERSION))
        assert isinstance(later, Later)
        return later

    def fetched(self, chunks: list[bytes | bytearray | FileSlice]) -> PartitionData:
        frame = b"".join(chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
        return decode(FetchResponse, frame, FETCH_VERSION, 9).responses[0].partitions[0]

    def latest(self) -> int:
        want = ListOffsetsPartition(partition_index=0, timestamp=list_offsets.Place.LATEST)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[want])])
        return list_offsets.handle(request, self.call(7)).topics[0].partitions[0].offset

    def call(self, version: int) -> Call:
        return Call(self.node, version, 1, "test", "test")


def test_acks_all_is_neither_answered_nor_visible_before_the_sync_has_ended(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        poll = s.long_poll()
        answer = s.produce(b"one")
        assert isinstance(answer, Later)
        await until(lambda: s.disk.syncs == 1)
        await turns()
        assert not answer.resolved
        assert not poll.resolved
        assert values_in(s.visible().records) == []
        assert (s.visible().high_watermark, s.latest()) == (0, 0)
        s.disk.open()
        assert (await settled(answer)).base_offset == 0
        assert (s.visible().high_watermark, s.latest()) == (1, 1)
        assert values_in(s.fetched(await wait_for(poll)).records) == [b"one"]

    run(tmp_path, scenario, way)


def test_one_sync_serves_every_append_that_came_before_it(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        first = s.produce(b"0")
        await until(lambda: s.disk.syncs == 1)
        rest = [s.produce(b"%d" % number) for number in range(1, 50)]
        await turns()
        assert s.disk.syncs == 1
        s.disk.open()
        offsets = [(await settled(answer)).base_offset for answer in (first, *rest)]
        assert offsets == list(range(50))
        assert s.disk.syncs == 2

    run(tmp_path, scenario, way)


def test_acks_1_is_answered_before_the_sync_and_visible_after_it(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        assert (await settled(s.produce(b"one", acks=1))).base_offset == 0
        await until(lambda: s.disk.syncs == 1)
        assert values_in(s.visible().records) == []
        s.disk.open()
        await until(lambda: values_in(s.visible().records) == [b"one"])

    run(tmp_path, scenario, way)


def test_a_resent_batch_is_acknowledged_only_when_the_first_one_is_synced(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        records = batch(b"one", producer_id=7)
        first, again = s.produce(b"", records=records), s.produce(b"", records=records)
        assert isinstance(again, Later)
        await until(lambda: s.disk.syncs == 1)
        await turns()
        assert not again.resolved
        s.disk.open()
        assert (await settled(first)).base_offset == (await settled(again)).base_offset == 0
        assert values_in(s.visible().records) == [b"one"]

    run(tmp_path, scenario, way)


def test_with_durability_os_nothing_waits_for_a_sync(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        poll = s.long_poll()
        answer = s.produce(b"one")
        assert not isinstance(answer, Later)
        assert values_in(s.visible().records) == [b"one"]
        assert values_in(s.fetched(await wait_for(poll)).records) == [b"one"]
        assert s.disk.syncs == 0

    run(tmp_path, scenario, way, durability="os")


def test_a_failed_sync_is_a_storage_error_and_its_records_never_become_visible(
    tmp_path: Path, way: Way
) -> None:
    async def scenario(s: Setup) -> None:
        s.disk.open()
        await settled(s.produce(b"synced"))
        s.disk.failing = True
        lost = await settled(s.produce(b"lost"))
        assert (lost.error_code, lost.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        s.disk.failing = False
        refused = await settled(s.produce(b"later"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_in(s.visible().records) == [b"synced"]
        assert (s.visible().high_watermark, s.latest()) == (1, 1)

    run(tmp_path, scenario, way)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_failed_sync_fails_everybody_who_waited_for_it(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        first = s.produce(b"0")
        await until(lambda: s.disk.syncs == 1)
        second = s.produce(b"1")
        s.disk.failing = True
        s.disk.open()
        codes = [(await settled(answer)).error_code for answer in (first, second)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    run(tmp_path, scenario, way)


def test_a_sync_slower_than_the_request_allows_is_a_timeout(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        late = await settled(s.produce(b"one", timeout_ms=10))
        assert (late.error_code, late.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        s.disk.open()
        await until(lambda: values_in(s.visible().records) == [b"one"])

    run(tmp_path, scenario, way)


def test_a_request_that_waits_for_its_flush_does_not_hold_its_buffer(tmp_path: Path) -> None:
    async def scenario(s: Setup) -> None:
        header = encode_request_header(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "test")
        frame = bytearray(header + encode(produce_request(TOPIC, batch(b"one")), PRODUCE_VERSION))
        plain = read_plain(memoryview(frame))
        answer = produce_plain(plain, s.node, s.call(PRODUCE_VERSION)) if plain else None
        assert isinstance(answer, Later)
        del plain
        frame.clear()  # refused while anybody has a view of it
        s.disk.open()
        assert (await settled(answer)).base_offset == 0

    run(tmp_path, scenario, in_short)


def test_deleting_the_topic_answers_those_who_wait(tmp_path: Path, way: Way) -> None:
    async def scenario(s: Setup) -> None:
        answer, poll = s.produce(b"one"), s.long_poll()
        await until(lambda: s.disk.syncs == 1)
        s.disk.open()  # the catalogue is synced too
        s.node.delete_topic(s.node.topics[TOPIC])
        assert (await settled(answer)).error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert s.fetched(await wait_for(poll)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(tmp_path, scenario, way)


def test_answers_keep_the_order_of_requests_although_the_first_waits_for_its_flush(tmp_path: Path) -> None:
    disk = GatedDisk()
    with BrokerInThread(tmp_path, disk=disk) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC)
        disk.shut()
        produced = wire.send(produce_request(TOPIC, batch(b"one")), PRODUCE_VERSION)
        asked = wire.send(MetadataRequest(topics=[]), METADATA_VERSION)
        wait_until(lambda: disk.syncs == 1)
        with Wire(broker.bootstrap_servers) as other:
            assert metadata(other, []) == []
        readable = is_readable(wire.sock, 0.05)
        disk.open()
        assert not readable
        assert wire.receive_numbered(ProduceResponse, PRODUCE_VERSION)[0] == produced
        assert wire.receive_numbered(MetadataResponse, METADATA_VERSION)[0] == asked


def run(
    folder: Path, scenario: Callable[[Setup], Awaitable[None]], way: Way, durability: str = "fsync"
) -> None:
    async def main() -> None:
        disk = GatedDisk()
        settings = load_settings(environment={}, flags={"data": folder, "durability": durability})
        node = Node(settings, asyncio.get_running_loop(), Clock(), disk)
        try:
            node.create_topic(TOPIC, 1, {})
            disk.shut()
            await scenario(Setup(node, disk, way))
        finally:
            disk.failing = False
            disk.open()
            await node.close()

    asyncio.run(main())


async def settled(answer: Produced) -> PartitionProduceResponse:
    response = await wait_for(answer) if isinstance(answer, Later) else answer
    if isinstance(response, list):
        (frame,) = response
        assert isinstance(frame, bytearray)
        response = decode(ProduceResponse, frame, PRODUCE_VERSION, 9)
    return response.responses[0].partition_responses[0]


async def wait_for(later: Later) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    later.then(future.set_result)
    async with asyncio.timeout(TIMEOUT_S):
        return await future


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - it changes in another thread
            await asyncio.sleep(0.001)


async def turns() -> None:
    """Time enough for everything that could happen without the disk, in the loop and in its threads."""
    for _ in range(20):
        await asyncio.sleep(0.001)
