"""Every limit of the network side: a slow, dead or greedy client costs a bounded amount and harms nobody."""

from __future__ import annotations

import re
import resource
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from oncestream import Broker
from oncestream.broker.connection import UNRESERVED_BYTES_MAX
from oncestream.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncestream.wire.messages.produce import ProduceResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    FETCH_VERSION,
    METADATA_VERSION,
    PRODUCE_VERSION,
    TIMEOUT_S,
    ClosedByBrokerError,
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    frame_of,
    is_readable,
    metadata,
    produce,
    produce_request,
    wait_until,
)

Warnings = Callable[[], list[str]]
MIB = 1024 * 1024
SWEEP_S = 0.02
SOCKET_BUFFERS_MAX = 32 * MIB  # far above what Linux gives to both ends of a loopback connection
MEMORY_GROWTH_MAX = 24 * MIB


def test_with_too_many_requests_waiting_a_connection_is_read_no_further(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(requests_in_flight_max=4)
    wire, other = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    topic = create_topic(other).name or ""
    for _ in range(4):
        wire.send(fetch_request(topic, wait_ms=60_000), FETCH_VERSION)
    request = frame_of(ApiVersionsRequest(), 0, client_id="x" * 32_000)
    sent = _send_until_blocked(wire, request * 10, SOCKET_BUFFERS_MAX)
    assert sent < SOCKET_BUFFERS_MAX
    produce(other, topic, batch(b"wakes them"))
    for _ in range(4):
        wire.receive(FetchResponse, FETCH_VERSION)
    for _ in range(sent // len(request)):
        assert wire.receive(ApiVersionsResponse, 0).error_code == 0


def test_requests_that_came_in_one_piece_are_counted_too(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(requests_in_flight_max=4)
    wire, other = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    polled, written = create_topic(other).name or "", create_topic(other).name or ""
    poll = frame_of(fetch_request(polled, wait_ms=60_000), FETCH_VERSION)
    wire.sock.sendall(poll * 4 + frame_of(produce_request(written, batch(b"fifth")), PRODUCE_VERSION))
    for _ in range(20):
        assert fetch(other, fetch_request(written)).high_watermark == 0
    produce(other, polled, batch(b"wakes them"))
    for _ in range(4):
        wire.receive(FetchResponse, FETCH_VERSION)
    assert wire.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0].base_offset == 0


def test_a_client_that_never_reads_costs_bounded_memory_and_is_closed(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(process=True, stall_ms_max=1_000)
    other = connect(broker.bootstrap_servers)
    topic = create_topic(other, partitions=500).name
    request = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), METADATA_VERSION)
    metadata(other, [topic or ""])
    before = _memory(broker)
    with Wire(broker.bootstrap_servers, receive_buffer=4096) as deaf:
        sent = _send_until_blocked(deaf, request * 20_000, SOCKET_BUFFERS_MAX)
        assert sent < SOCKET_BUFFERS_MAX
        assert metadata(other, []) == []
        assert _memory(broker) - before < MEMORY_GROWTH_MAX
        _wait_hung_up(deaf)
    assert metadata(other, []) == []


def test_clients_that_never_read_their_fetches_cost_bounded_memory(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(process=True)
    other = connect(broker.bootstrap_servers)
    topic = create_topic(other).name or ""
    for _ in range(32):
        produce(other, topic, batch(b"x" * 900_000))
    metadata(other, [topic])
    before = _memory(broker)
    deaf = [Wire(broker.bootstrap_servers, receive_buffer=4096) for _ in range(20)]
    for wire in deaf:
        for _ in range(100):
            wire.send(fetch_request(topic), FETCH_VERSION)
    assert metadata(other, []) == []
    assert _memory(broker) - before < MEMORY_GROWTH_MAX
    for wire in deaf:
        wire.close()


def test_a_half_sent_frame_is_closed_after_the_stall_time(
    start_broker: StartBroker, connect: Connect, warnings_logged: Warnings
) -> None:
    broker = start_broker(stall_ms_max=100, sweep_s=SWEEP_S)
    half, other = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    began = time.monotonic()
    half.sock.sendall(frame_of(MetadataRequest(topics=[]), METADATA_VERSION)[:9])
    half.wait_closed()
    assert time.monotonic() - began >= 0.1
    assert metadata(other, []) == []
    assert len(warnings_logged()) == 1


def test_a_connection_waiting_for_a_long_poll_is_neither_idle_nor_stalled(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(stall_ms_max=100, idle_ms_max=1_000, sweep_s=SWEEP_S)
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire).name or ""
    wire.send(fetch_request(topic, wait_ms=1_500), FETCH_VERSION)
    assert wire.receive(FetchResponse, FETCH_VERSION).error_code == 0


def test_an_idle_connection_is_closed_without_a_warning(
    start_broker: StartBroker, connect: Connect, warnings_logged: Warnings
) -> None:
    broker = start_broker(idle_ms_max=1_000, sweep_s=SWEEP_S)
    wire = connect(broker.bootstrap_servers)
    began = time.monotonic()
    metadata(wire, [])
    assert wire.wait_closed() == b""
    assert time.monotonic() - began >= 0.9
    assert warnings_logged() == []


def test_a_connection_beyond_the_maximum_is_refused_until_one_leaves(
    start_broker: StartBroker, connect: Connect, warnings_logged: Warnings
) -> None:
    broker = start_broker(connections_max=3)
    held = [connect(broker.bootstrap_servers) for _ in range(3)]
    for wire in held:
        metadata(wire, [])
    assert connect(broker.bootstrap_servers).wait_closed() == b""
    assert len(warnings_logged()) == 1
    held[0].close()
    wait_until(lambda: _is_welcome(broker))
    metadata(held[1], [])


def test_a_frame_above_the_maximum_closes_its_connection_and_one_below_is_taken(
    start_broker: StartBroker, connect: Connect, warnings_logged: Warnings
) -> None:
    broker = start_broker(frame_bytes_max=10_000)
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire).name or ""
    largest = produce_request(topic, batch(b"x" * 9_800))
    assert 9_900 < len(frame_of(largest, PRODUCE_VERSION)) <= 10_004
    assert wire.ask(largest, PRODUCE_VERSION, ProduceResponse).responses[0].partition_responses[0].index == 0
    wire.send(produce_request(topic, batch(b"x" * 10_000)), PRODUCE_VERSION)
    assert wire.wait_closed() == b""
    assert len(warnings_logged()) == 1
    assert re.search(r"a frame of 10\d{3} bytes", warnings_logged()[0])


def test_large_frames_of_many_connections_are_received_in_turn_and_all_succeed(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(in_flight_bytes_max=MIB)
    wires = [connect(broker.bootstrap_servers) for _ in range(6)]
    topic = create_topic(wires[0]).name or ""
    frame = frame_of(produce_request(topic, batch(b"x" * 700_000)), PRODUCE_VERSION)
    cut = UNRESERVED_BYTES_MAX
    for wire in wires:
        wire.sock.sendall(frame[:cut])

    def send_the_rest(wire: Wire) -> int:
        wire.sock.sendall(frame[cut:])
        answer = wire.receive(ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0].base_offset

    with ThreadPoolExecutor(len(wires)) as pool:
        offsets = list(pool.map(send_the_rest, wires))
    assert sorted(offsets) == list(range(6))


def test_a_large_frame_waits_for_room_while_small_ones_pass(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(in_flight_bytes_max=MIB)
    first, second, small = (connect(broker.bootstrap_servers) for _ in range(3))
    topic = create_topic(small).name or ""
    frame = frame_of(produce_request(topic, batch(b"x" * 700_000)), PRODUCE_VERSION)
    first.sock.sendall(frame[:-1])
    metadata(small, [])
    sent = _send_until_blocked(second, frame, len(frame))  # as far as the kernel's buffers take it
    for _ in range(5):
        assert metadata(small, []) == []
    assert not is_readable(second.sock, 0.1)
    first.sock.sendall(frame[-1:])
    second.sock.sendall(frame[sent:])
    for offset, wire in enumerate((first, second)):
        answer = wire.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]
        assert answer.base_offset == offset


def test_one_who_holds_room_and_stalls_is_closed_and_the_next_gets_it(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(in_flight_bytes_max=MIB, stall_ms_max=300, sweep_s=SWEEP_S)
    stalling, patient = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    topic = create_topic(patient).name or ""
    frame = frame_of(produce_request(topic, batch(b"x" * 700_000)), PRODUCE_VERSION)
    stalling.sock.sendall(frame[:-1])
    metadata(patient, [])
    patient.sock.sendall(frame)
    answer = patient.receive(ProduceResponse, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].base_offset == 0
    stalling.wait_closed()


def test_a_frame_larger_than_all_the_room_is_taken_when_it_is_alone(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(in_flight_bytes_max=MIB)
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire, configs={"max.message.bytes": "5000000"}).name or ""
    assert produce(wire, topic, batch(b"x" * 3_000_000)).base_offset == 0


def test_room_of_a_client_that_leaves_is_given_back(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(in_flight_bytes_max=MIB)
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire).name or ""
    frame = frame_of(produce_request(topic, batch(b"x" * 700_000)), PRODUCE_VERSION)
    for _ in range(5):
        with Wire(broker.bootstrap_servers) as leaving:
            leaving.sock.sendall(frame[:300_000])
    assert produce(wire, topic, batch(b"x" * 700_000)).base_offset == 0


def _send_until_blocked(wire: Wire, data: bytes, bytes_max: int) -> int:
    """Sends `data` over and over until nobody takes it for a while; how many bytes went, whole requests or not."""
    sent = 0
    poller = select.poll()
    poller.register(wire.sock, select.POLLOUT)
    wire.sock.setblocking(False)
    view = memoryview(data)
    while sent < bytes_max and poller.poll(300):
        sent += wire.sock.send(view[sent % len(view) :])
    wire.sock.settimeout(TIMEOUT_S)
    return sent


def _wait_hung_up(wire: Wire) -> None:
    """Waits for the broker's close without taking the bytes that came before it."""
    poller = select.poll()
    poller.register(wire.sock, select.POLLRDHUP)
    assert poller.poll(TIMEOUT_S * 1000), "the broker keeps the connection"


def _memory(broker: Broker) -> int:
    pages = Path(f"/proc/{broker.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def _is_welcome(broker: Broker) -> bool:
    try:
        with Wire(broker.bootstrap_servers) as wire:
            return metadata(wire, []) == []
    except (ClosedByBrokerError, BrokenPipeError, ConnectionResetError):
        return False
