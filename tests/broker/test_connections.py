"""What a connection does with frames good and bad: one bad client is cut off, all others go on, in order."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from oncestream.broker.apis import APIS
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import decode
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncestream.wire.messages.produce import ProduceResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    FETCH_VERSION,
    METADATA_VERSION,
    PRODUCE_VERSION,
    Wire,
    batch,
    create_topic,
    fetch_request,
    frame_of,
    framed,
    metadata,
    new_name,
    produce,
    produce_request,
    values_of,
    wait_until,
)
from tests.conftest import Target

Warnings = Callable[[], list[str]]

METADATA_FRAME = frame_of(MetadataRequest(topics=[]), METADATA_VERSION)
MALFORMED = {
    "a negative length": struct.pack(">i", -1) + bytes(8),
    "a length of nothing": struct.pack(">i", 0),
    "a length shorter than a header": framed(bytes(7)),
    "a TLS hello": bytes.fromhex("16030100f5010000f1030386") + bytes(64),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown api key": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "a negative api key": framed(struct.pack(">hhih", -5, 0, 1, -1)),
    "a version above those served": framed(struct.pack(">hhih", ApiKey.METADATA, 99, 1, -1) + bytes(16)),
    "a version below those served": framed(struct.pack(">hhih", ApiKey.FETCH, 3, 1, -1) + bytes(16)),
    "Produce version 2": framed(struct.pack(">hhih", ApiKey.PRODUCE, 2, 1, -1) + bytes(16)),
    "a truncated body": framed(METADATA_FRAME[4:-1]),
    "a truncated header": framed(METADATA_FRAME[4:13]),
    "a client id that is no UTF-8": framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, 2) + b"\xff\xfe"),
    "an array longer than the frame": framed(
        struct.pack(">hhihi", ApiKey.METADATA, 1, 1, -1, 1_000_000_000) + bytes(8)
    ),
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_frame_closes_its_connection_only_with_one_warning(
    malformed: bytes, embedded: Target, connect: Connect, warnings_logged: Warnings
) -> None:
    other, bad = connect(embedded.bootstrap_servers), connect(embedded.bootstrap_servers)
    assert metadata(other, []) == []
    host, port = bad.sock.getsockname()
    bad.sock.sendall(malformed)
    assert bad.wait_closed() == b""
    assert metadata(other, []) == []
    assert len(warnings_logged()) == 1
    assert f"peer={host}:{port}" in warnings_logged()[0]


def test_requests_before_a_malformed_frame_are_answered(embedded: Target, connect: Connect) -> None:
    bad = connect(embedded.bootstrap_servers)
    bad.sock.sendall(METADATA_FRAME + framed(bytes(8)[:2] + b"\xff" * 10))
    first = bad.wait_closed()
    assert decode(MetadataResponse, first, METADATA_VERSION, 9).brokers


def test_a_client_that_just_leaves_is_no_warning(
    embedded: Target, connect: Connect, warnings_logged: Warnings
) -> None:
    leaving = connect(embedded.bootstrap_servers)
    leaving.sock.sendall(METADATA_FRAME[:9])
    leaving.close()
    assert metadata(connect(embedded.bootstrap_servers), []) == []
    assert warnings_logged() == []


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_in_an_unknown_version_is_answered_in_version_0_with_the_table(
    version: int, bootstrap: str
) -> None:
    with Wire(bootstrap) as wire:
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, 3) + b"kit"
        wire.sock.sendall(framed(header + b"\x00\x01\x01\x00"))
        frame = wire.receive_frame()
        assert struct.unpack_from(">i", frame) == (7,)
        answer = decode(ApiVersionsResponse, frame, 0, 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        served = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        assert served[ApiKey.API_VERSIONS] == (0, 4)
        assert wire.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0


def test_api_versions_tells_the_table_of_served_apis(embedded: Target, connect: Connect) -> None:
    wire = connect(embedded.bootstrap_servers)
    request = ApiVersionsRequest(client_software_name="kit", client_software_version="1")
    for version in range(5):
        answer = wire.ask(request, version, ApiVersionsResponse)
        told = {(key.api_key, key.min_version, key.max_version) for key in answer.api_keys}
        assert told == {(int(api.key), api.version_min, api.version_max) for api in APIS.values()}


def test_answers_keep_the_order_of_requests_although_the_first_is_a_long_poll(
    embedded: Target, connect: Connect
) -> None:
    wire = connect(embedded.bootstrap_servers)
    topic = create_topic(wire).name or ""
    poll_id = wire.send(fetch_request(topic, wait_ms=60_000), FETCH_VERSION)
    metadata_id = wire.send(MetadataRequest(topics=[]), METADATA_VERSION)
    produce_id = wire.send(produce_request(topic, batch(b"woken")), PRODUCE_VERSION)
    got_id, fetched = wire.receive_numbered(FetchResponse, FETCH_VERSION)
    assert got_id == poll_id
    assert values_of(fetched.responses[0].partitions[0].records) == [b"woken"]
    assert wire.receive_numbered(MetadataResponse, METADATA_VERSION)[0] == metadata_id
    assert wire.receive_numbered(ProduceResponse, PRODUCE_VERSION)[0] == produce_id


def test_many_pipelined_requests_are_all_answered_in_order(embedded: Target, connect: Connect) -> None:
    wire = connect(embedded.bootstrap_servers)
    topic = create_topic(wire).name or ""
    record = batch(b"x" * 100)
    sent = [wire.send(produce_request(topic, record), PRODUCE_VERSION) for _ in range(500)]
    answers = [wire.receive_numbered(ProduceResponse, PRODUCE_VERSION) for _ in sent]
    assert [number for number, _ in answers] == sent
    offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answers]
    assert offsets == list(range(500))


def test_a_frame_that_comes_byte_by_byte_is_answered(embedded: Target, connect: Connect) -> None:
    wire = connect(embedded.bootstrap_servers)
    for position in range(len(METADATA_FRAME)):
        wire.sock.sendall(METADATA_FRAME[position : position + 1])
    assert wire.receive(MetadataResponse, METADATA_VERSION).brokers


def test_a_failed_produce_with_acks_0_closes_the_connection(
    embedded: Target, connect: Connect, warnings_logged: Warnings
) -> None:
    wire = connect(embedded.bootstrap_servers)
    wire.send(produce_request("no-such-topic-here", batch(b"x"), acks=0), PRODUCE_VERSION)
    assert wire.wait_closed() == b""
    assert len(warnings_logged()) == 1


def test_a_produce_with_acks_0_is_not_answered_and_the_next_request_is(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        topic = create_topic(wire).name or ""
        wire.send(produce_request(topic, batch(b"silent"), acks=0), PRODUCE_VERSION)
        number = wire.send(fetch_request(topic, wait_ms=10_000), FETCH_VERSION)
        got, fetched = wire.receive_numbered(FetchResponse, FETCH_VERSION)
        assert got == number
        assert values_of(fetched.responses[0].partitions[0].records) == [b"silent"]


def test_a_long_poll_whose_client_left_disturbs_nobody(
    start_broker: StartBroker, connect: Connect, warnings_logged: Warnings
) -> None:
    broker = start_broker()
    wire, leaving = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    topic = create_topic(wire, new_name()).name or ""
    leaving.send(fetch_request(topic, wait_ms=60_000), FETCH_VERSION)
    leaving.close()
    wait_until(lambda: produce(wire, topic, batch(b"x")).base_offset == 9)
    assert warnings_logged() == []
