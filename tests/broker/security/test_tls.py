"""TLS on the wire: the same answers as without it, and who is turned away."""

from __future__ import annotations

import datetime
import logging
import os
import random
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from oncestream.broker.security.distinguished_name import subject_of
from oncestream.errors import BadSetting, BrokerFailed, OpenListener
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
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
    fetch,
    fetch_request,
    frame_of,
    metadata,
    produce,
    produce_request,
    values_of,
    wait_until,
)
from tests.broker.security.kit import client_context, mutual_settings, server_settings, tls_wire
from tests.certificates import Certificates, Pair

Warnings = Callable[[], list[str]]
TlsConnect = Callable[..., Wire]

PROTOCOL_VERSION_ALERT = b"\x02\x46"  # fatal, protocol_version


@pytest.fixture
def bootstrap_tls(start_broker: StartBroker, certificates: Certificates) -> str:
    return start_broker(**server_settings(certificates.server)).bootstrap_servers


@pytest.fixture
def connect_tls(certificates: Certificates) -> Iterator[TlsConnect]:
    """Opens connections with TLS that are closed when the test ends."""
    with ExitStack() as stack:

        def connect(bootstrap: str, pair: Pair | None = None) -> Wire:
            return stack.enter_context(tls_wire(bootstrap, client_context(certificates, pair)))

        yield connect


def test_what_is_produced_over_tls_is_fetched_over_tls(bootstrap_tls: str, connect_tls: TlsConnect) -> None:
    wire = connect_tls(bootstrap_tls)
    create_topic(wire, "events")
    sizes = (1, 100, 16_384, 100_000, 1_000_000)
    values = [random.Random(size).randbytes(size) for size in sizes]
    for value in values:
        assert produce(wire, "events", batch(value)).error_code == 0
    assert values_of(fetch(wire, fetch_request("events")).records) == values


def test_the_newest_tls_is_preferred_and_nothing_below_1_2_is_taken(
    bootstrap_tls: str, certificates: Certificates
) -> None:
    with tls_wire(bootstrap_tls, client_context(certificates)) as wire:
        assert isinstance(wire.sock, ssl.SSLSocket)
        assert wire.sock.version() == "TLSv1.3"
    newer = client_context(certificates)
    newer.maximum_version = ssl.TLSVersion.TLSv1_2
    with tls_wire(bootstrap_tls, newer) as wire:
        assert metadata(wire, []) == []
    for version in (b"\x03\x01", b"\x03\x02"):
        with Wire(bootstrap_tls) as wire:
            wire.sock.sendall(hello(version))
            assert wire.wait_closed()[5:] == PROTOCOL_VERSION_ALERT


def hello(version: bytes) -> bytes:
    """The first message of a client that speaks an old version of TLS; today's libraries do not send it any more."""
    ciphers = bytes.fromhex("c009c00ac013c014002f0035")
    curves = bytes.fromhex("000a00040002001700" + "0b00020100")
    body = version + bytes(32) + b"\0" + len(ciphers).to_bytes(2, "big") + ciphers + b"\x01\0"
    body += len(curves).to_bytes(2, "big") + curves
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


@pytest.mark.parametrize("in_flight_max", [1, 2, 3, 128])
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_pipelined_requests_are_answered_in_order_however_few_may_wait(
    protocol: str,
    in_flight_max: int,
    start_broker: StartBroker,
    certificates: Certificates,
    connect: Connect,
    connect_tls: TlsConnect,
) -> None:
    settings = server_settings(certificates.server) if protocol == "SSL" else {}
    broker = start_broker(**settings, requests_in_flight_max=in_flight_max)
    wire = (connect_tls if protocol == "SSL" else connect)(broker.bootstrap_servers)
    create_topic(wire, "events")
    requests = [produce_request("events", batch(b"%d" % number)) for number in range(300)]
    frames = [frame_of(request, PRODUCE_VERSION, 1000 + number) for number, request in enumerate(requests)]
    wire.sock.sendall(b"".join(frames))
    for number in range(len(requests)):
        correlation_id, answer = wire.receive_numbered(ProduceResponse, PRODUCE_VERSION)
        assert correlation_id == 1000 + number
        assert answer.responses[0].partition_responses[0].base_offset == number


def test_frames_may_come_in_pieces_of_any_size(bootstrap_tls: str, connect_tls: TlsConnect) -> None:
    wire = connect_tls(bootstrap_tls)
    frames = frame_of(MetadataRequest(topics=[]), METADATA_VERSION) * 3
    for start in range(0, len(frames), 7):
        wire.sock.sendall(frames[start : start + 7])
    for _ in range(3):
        assert wire.receive(MetadataResponse, METADATA_VERSION).brokers


def test_a_client_that_does_not_take_its_answers_does_not_hold_up_others(
    bootstrap_tls: str, connect_tls: TlsConnect
) -> None:
    slow, other = connect_tls(bootstrap_tls), connect_tls(bootstrap_tls)
    create_topic(other, "events")
    value = random.Random(0).randbytes(900_000)
    for _ in range(8):
        produce(other, "events", batch(value))
    for _ in range(10):
        slow.send(fetch_request("events"), FETCH_VERSION)
    assert metadata(other, ["events"])[0].error_code == 0
    for _ in range(10):
        answer = slow.receive(FetchResponse, FETCH_VERSION)
        assert values_of(answer.responses[0].partitions[0].records) == [value] * 8


def test_a_handshake_may_come_byte_by_byte(bootstrap_tls: str, certificates: Certificates) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(certificates).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with Wire(bootstrap_tls) as wire:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    wire.sock.sendall(bytes([byte]))
                incoming.write(wire.sock.recv(65536))
        tls.write(frame_of(MetadataRequest(topics=[]), METADATA_VERSION))
        wire.sock.sendall(outgoing.read())
        incoming.write(wire.sock.recv(65536))
        assert len(tls.read()) > 8


def test_a_client_without_tls_is_closed_and_others_go_on(
    bootstrap_tls: str, connect_tls: TlsConnect, connect: Connect, warnings_logged: Warnings
) -> None:
    other, plain = connect_tls(bootstrap_tls), connect(bootstrap_tls)
    plain.sock.sendall(frame_of(MetadataRequest(topics=[]), METADATA_VERSION))
    assert len(plain.wait_closed()) < 16  # an alert, perhaps
    assert metadata(other, []) == []
    assert len(warnings_logged()) == 1
    assert "a client without TLS?" in warnings_logged()[0]


def test_a_tls_client_at_a_plain_listener_is_closed_and_told_of_in_the_log(
    start_broker: StartBroker, certificates: Certificates, connect: Connect, warnings_logged: Warnings
) -> None:
    bootstrap = start_broker().bootstrap_servers
    other = connect(bootstrap)
    with pytest.raises(OSError, match=r"(?i)eof|reset"):
        tls_wire(bootstrap, client_context(certificates))
    assert metadata(other, []) == []
    assert "a client that speaks TLS?" in warnings_logged()[0]


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_in_place_of_a_handshake_harm_the_broker(
    seed: int, bootstrap_tls: str, connect_tls: TlsConnect, connect: Connect
) -> None:
    rough = random.Random(seed)
    hello = bytes.fromhex("16030100f5010000f10303") if seed % 2 else b""
    bad = connect(bootstrap_tls)
    bad.sock.sendall(hello + rough.randbytes(rough.randrange(1, 2000)))
    bad.sock.shutdown(socket.SHUT_WR)
    bad.wait_closed()
    assert metadata(connect_tls(bootstrap_tls), []) == []


def test_the_broker_says_goodbye(bootstrap_tls: str, certificates: Certificates) -> None:
    with Wire(bootstrap_tls) as wire:
        context = client_context(certificates)
        wire.sock = context.wrap_socket(wire.sock, server_hostname="localhost", suppress_ragged_eofs=False)
        wire.sock.sendall(b"\xff\xff\xff\xff" + bytes(8))
        assert wire.sock.recv(100) == b""  # without the last message of TLS this would be an error


@pytest.mark.parametrize("client", ["none", "stranger", "expired_alice"])
def test_where_certificates_are_required_only_good_ones_get_in(
    client: str,
    start_broker: StartBroker,
    certificates: Certificates,
    connect_tls: TlsConnect,
    warnings_logged: Warnings,
) -> None:
    bootstrap = start_broker(**mutual_settings(certificates)).bootstrap_servers
    pair = None if client == "none" else getattr(certificates, client)
    with pytest.raises(OSError, match=r"(?i)required|unknown ca|expired|reset|closed") as refused:
        metadata(connect_tls(bootstrap, pair), [])
    assert not isinstance(refused.value, TimeoutError)
    assert metadata(connect_tls(bootstrap, certificates.alice), []) == []
    expected = {"none": "peer did not return a certificate", "expired_alice": "expired"}
    assert expected.get(client, "certificate") in warnings_logged()[0]


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_the_subject_of_its_certificate_is_a_clients_name(
    client_auth: str,
    start_broker: StartBroker,
    certificates: Certificates,
    connect_tls: TlsConnect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="oncestream")
    bootstrap = start_broker(**mutual_settings(certificates, client_auth)).bootstrap_servers
    assert metadata(connect_tls(bootstrap, certificates.alice), []) == []
    assert "principal=User:CN=alice,O=x" in caplog.text
    if client_auth == "requested":
        assert metadata(connect_tls(bootstrap), []) == []
        with pytest.raises(OSError, match=r"(?i)unknown ca|reset|closed"):
            metadata(connect_tls(bootstrap, certificates.stranger), [])


def test_a_subject_is_written_as_java_writes_it() -> None:
    # From the least to the most special part; each expected text was printed by Java's X500Principal.getName().
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(x509.NameOID.EMAIL_ADDRESS, "a@b.c"),
            x509.NameAttribute(x509.NameOID.DOMAIN_COMPONENT, "d"),
            x509.NameAttribute(x509.NameOID.USER_ID, "u"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "#x y#"),
            x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, "Ä ö"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, 'a,b=c#d;e+f<g>h"i\\j'),
        ]
    )
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )
    assert subject_of(made) == (
        r"CN=a\,b\=c\#d\;e\+f\<g\>h\"i\\j,OU=Ä ö,O=\#x y\#,UID=u,DC=d"
        ",1.2.840.113549.1.9.1=#16056140622e63,C=DE"
    )


@pytest.mark.parametrize("damage", ["cut", "empty", "junk"])
def test_a_subject_that_cannot_be_read_is_an_error(damage: str, certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.alice.certificate.read_text())
    assert subject_of(der) == "CN=alice,O=x"
    bad = {"cut": der[:60], "empty": b"", "junk": b"0\x82" + bytes(50)}[damage]
    with pytest.raises(ValueError, match="cannot be read"):
        subject_of(bad)


def test_connections_that_never_speak_are_closed_and_keep_nobody_out(
    start_broker: StartBroker, certificates: Certificates, connect: Connect, connect_tls: TlsConnect
) -> None:
    bootstrap = start_broker(**server_settings(certificates.server), stall_ms_max=2_000).bootstrap_servers
    silent = [connect(bootstrap) for _ in range(200)]
    silent[0].sock.sendall(b"\x16\x03\x01")
    wire = connect_tls(bootstrap)
    assert metadata(wire, []) == []
    for each in silent:
        assert each.wait_closed() == b""
    assert metadata(wire, []) == []


def test_silent_connections_make_room_for_others_when_all_places_are_taken(
    start_broker: StartBroker, certificates: Certificates, connect: Connect, connect_tls: TlsConnect
) -> None:
    bootstrap = start_broker(**server_settings(certificates.server), connections_max=10).bootstrap_servers
    good = [connect_tls(bootstrap)]
    assert metadata(good[0], []) == []
    silent = [connect(bootstrap) for _ in range(30)]
    good += [connect_tls(bootstrap) for _ in range(9)]
    assert [metadata(each, []) for each in good] == [[]] * 10
    for each in silent:
        assert each.wait_closed() == b""
    with pytest.raises(OSError, match=r"(?i)eof|reset"):  # now all are good ones
        connect_tls(bootstrap)


def test_new_certificates_are_taken_without_a_restart(
    tmp_path: Path, start_broker: StartBroker, certificates: Certificates, warnings_logged: Warnings
) -> None:
    file = tmp_path / "both.pem"
    shutil.copy(certificates.server.both, file)
    bootstrap = start_broker(tls_certificate=file).bootstrap_servers

    def subject() -> str:
        with tls_wire(bootstrap, client_context(certificates)) as wire:
            assert isinstance(wire.sock, ssl.SSLSocket)
            return subject_of(wire.sock.getpeercert(binary_form=True) or b"")

    assert subject() == "CN=server"
    file.write_text("half written")
    wait_until(lambda: any("new TLS files are not used" in line for line in warnings_logged()))
    assert subject() == "CN=server"
    shutil.copy(certificates.renewed_server.both, tmp_path / "next.pem")
    os.replace(tmp_path / "next.pem", file)
    wait_until(lambda: subject() == "CN=renewed-server")


def test_a_key_with_a_password_is_opened_by_the_file_that_holds_it(
    start_broker: StartBroker, certificates: Certificates, connect_tls: TlsConnect
) -> None:
    settings = server_settings(certificates.encrypted_server)
    broker = start_broker(**settings, tls_key_password_file=certificates.key_password_file)
    assert metadata(connect_tls(broker.bootstrap_servers), []) == []


def test_files_that_cannot_be_used_are_refused_before_anything_is_done(
    tmp_path: Path, start_broker: StartBroker, certificates: Certificates
) -> None:
    server, missing = certificates.server, tmp_path / "missing.pem"
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("tls_certificate", {"tls_certificate": missing}),
        ("tls_certificate", {"tls_certificate": text}),
        ("tls_certificate", {"tls_certificate": server.certificate}),
        ("tls_certificate", {"tls_certificate": server.certificate, "tls_key": certificates.alice.key}),
        ("tls_certificate", server_settings(certificates.encrypted_server)),
        ("tls_key_password_file", {**server_settings(server), "tls_key_password_file": missing}),
        ("tls_key", {"tls_key": server.key}),
        ("tls_client_auth", {**server_settings(server), "tls_client_auth": "required"}),
        ("tls_client_ca", {**server_settings(server), "tls_client_ca": certificates.ca}),
        ("tls_client_ca", {**mutual_settings(certificates), "tls_client_ca": text}),
        ("listen", {"listen": "SSL://127.0.0.1:0"}),
        ("listen", {"listen": "SASL_PLAINTEXT://127.0.0.1:0"}),
        ("listen", {"listen": "HTTP://127.0.0.1:0"}),
        ("listen", {"listen": "127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}),
        ("listen", {"listen": " , "}),
        ("advertise", {"advertise": "SSL://127.0.0.1:1"}),
        ("sasl_mechanisms", {"sasl_mechanisms": "PLAIN,GSSAPI"}),
    ]
    for name, settings in wrong:
        with pytest.raises(BadSetting, match=f"setting {name} "):
            start_broker(data=tmp_path / "data", **settings)
        assert not (tmp_path / "data").exists()


def test_beyond_loopback_only_listeners_that_know_their_clients_are_opened(
    tmp_path: Path, start_broker: StartBroker, certificates: Certificates
) -> None:
    tls, scram = server_settings(certificates.server), {"sasl_mechanisms": "SCRAM-SHA-512"}
    refused: list[tuple[str, dict[str, Any]]] = [
        ("no authentication", tls),
        ("no authentication", mutual_settings(certificates, "requested")),
        ("no TLS", {**scram}),
    ]
    for reason, settings in refused:
        with pytest.raises(OpenListener, match=reason):
            start_broker(listen="0.0.0.0:0", **settings)
    with pytest.raises(BadSetting, match="only offered over TLS"):
        start_broker(listen="0.0.0.0:0", insecure=True, sasl_mechanisms="PLAIN")
    taken: list[dict[str, Any]] = [
        mutual_settings(certificates),
        {**tls, **scram},
        {**tls, "sasl_mechanisms": "PLAIN"},
        {**scram, "insecure": True},
    ]
    for settings in taken:
        start_broker(listen="0.0.0.0:0", **settings)


def test_each_listener_tells_its_own_address(
    tmp_path: Path, start_broker: StartBroker, certificates: Certificates, connect: Connect
) -> None:
    for process in (False, True):
        broker = start_broker(
            process=process,
            listen="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            advertise="SSL://localhost:1234",
            **server_settings(certificates.server),
        )
        plain = connect(broker.bootstrap_servers)
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        assert broker.bootstrap_servers_of("PLAINTEXT") == broker.bootstrap_servers
        assert broker.bootstrap_servers_of("SSL") == "localhost:1234"
        told = plain.ask(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse).brokers[0]
        assert (told.host, told.port) == ("127.0.0.1", port)
        with pytest.raises(BrokerFailed, match="SASL_SSL"):
            broker.bootstrap_servers_of("SASL_SSL")


def test_a_client_of_the_second_listener_is_told_the_second_address(
    start_broker: StartBroker, certificates: Certificates, connect_tls: TlsConnect
) -> None:
    broker = start_broker(
        listen="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", **server_settings(certificates.server)
    )
    address = broker.bootstrap_servers_of("SSL")
    wire = connect_tls(address)
    told = wire.ask(MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse).brokers[0]
    assert f"{told.host}:{told.port}" == address != broker.bootstrap_servers
    resource = DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=["advertised.listeners"]
    )
    configs = wire.ask(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse)
    shown = configs.results[0].configs[0].value
    assert shown == f"PLAINTEXT://{broker.bootstrap_servers},SSL://{address}"
