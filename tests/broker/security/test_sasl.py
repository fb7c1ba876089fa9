"""Log-ins on the wire: who gets in, who does not, and what may be sent before."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from oncestream.broker.security.users import add_user_offline
from oncestream.client.sasl import login
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncestream.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from oncestream.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    METADATA_VERSION,
    PRODUCE_VERSION,
    ClosedByBrokerError,
    Wire,
    batch,
    create_topic,
    frame_of,
    framed,
    metadata,
    produce_request,
)
from tests.broker.security.kit import (
    ALL_MECHANISMS,
    PASSWORD,
    USER,
    LoginFailedError,
    authenticate,
    client_context,
    exchange_tokens,
    log_in,
    server_settings,
    shake,
    start_with_user,
    tls_wire,
)
from tests.certificates import Certificates

WRONG = "wrong user name or password"
MECHANISMS = pytest.mark.parametrize("mechanism", ALL_MECHANISMS)


@pytest.fixture
def bootstrap_sasl(start_broker: StartBroker, tmp_path: Path) -> str:
    """The address of a broker that asks for a log-in and knows alice."""
    return start_with_user(start_broker, tmp_path / "data")


@MECHANISMS
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_user_with_the_right_password_gets_in(
    mechanism: str,
    version: int,
    bootstrap_sasl: str,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="oncestream")
    wire = connect(bootstrap_sasl)
    assert wire.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).api_keys
    log_in(wire, mechanism=mechanism, version=version)
    create_topic(wire, "events", partitions=2)
    assert "principal=User:alice" in caplog.text


@MECHANISMS
def test_a_log_in_of_the_old_kind_has_no_headers(
    mechanism: str, bootstrap_sasl: str, connect: Connect
) -> None:
    wire = connect(bootstrap_sasl)
    exchange_tokens(wire, mechanism, PASSWORD)
    assert metadata(wire, []) == []


@MECHANISMS
def test_a_log_in_of_the_old_kind_with_a_wrong_password_is_closed(
    mechanism: str, bootstrap_sasl: str, connect: Connect
) -> None:
    wire = connect(bootstrap_sasl)
    with pytest.raises(ClosedByBrokerError):
        exchange_tokens(wire, mechanism, "wrong")


@MECHANISMS
def test_a_wrong_password_and_an_unknown_user_are_told_the_same_and_closed(
    mechanism: str, bootstrap_sasl: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for user, password in (
        (USER, "wrong"),
        ("nobody", PASSWORD),
        (USER, PASSWORD + " "),
        (USER.upper(), PASSWORD),
    ):
        wire = connect(bootstrap_sasl)
        with pytest.raises(LoginFailedError) as refused:
            log_in(wire, user, password, mechanism)
        told.append((refused.value.code, refused.value.message))
        assert wire.wait_closed() == b""
    assert set(told) == {(ErrorCode.SASL_AUTHENTICATION_FAILED, WRONG)}
    log_in(connect(bootstrap_sasl), mechanism=mechanism)
    assert "log-in refused: user 'nobody' is unknown or the password is wrong" in caplog.text
    assert PASSWORD not in caplog.text


def test_a_mechanism_that_is_not_offered_is_refused_with_a_list_of_those_that_are(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    bootstrap = start_with_user(start_broker, tmp_path / "data", sasl_mechanisms="SCRAM-SHA-512")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "GSSAPI", "SCRAM-SHA-512-PLUS", ""):
        for version in (0, 1):
            wire = connect(bootstrap)
            answer = wire.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == ["SCRAM-SHA-512"]
            assert wire.wait_closed() == b""


def test_plain_is_not_offered_where_others_could_listen_in(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    bootstrap = start_with_user(start_broker, tmp_path / "data", listen="0.0.0.0:0", insecure=True)
    wire = connect(f"127.0.0.1:{bootstrap.rpartition(':')[2]}")
    assert shake(wire, "SCRAM-SHA-256") == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_nothing_but_a_log_in_is_answered_before_the_log_in(bootstrap_sasl: str, connect: Connect) -> None:
    refused = [
        frame_of(MetadataRequest(topics=None), METADATA_VERSION),
        frame_of(produce_request("events", batch(b"x")), PRODUCE_VERSION),
        frame_of(produce_request("events", batch(b"x"), acks=0), PRODUCE_VERSION),
        framed(b"\0"),
        framed(bytes(7)),
        framed(b"\0\x11" + bytes(3)),
        framed(bytes([0, ApiKey.SASL_HANDSHAKE]) + bytes(70_000)),
        b"\x00\x10\x00\x00" + bytes(100),
    ]
    for frame in refused:
        for shaken in (False, True):
            wire = connect(bootstrap_sasl)
            if shaken:
                shake(wire, "PLAIN")
            wire.sock.sendall(frame)
            assert wire.wait_closed() == b"", frame
    wire = connect(bootstrap_sasl)
    log_in(wire)
    assert metadata(wire, []) == []  # and no topic was made


def test_requests_sent_along_with_a_log_in_wait_for_its_outcome(
    bootstrap_sasl: str, connect: Connect
) -> None:
    ask = frame_of(MetadataRequest(topics=[]), METADATA_VERSION, 77)
    for password in (PASSWORD, "wrong"):
        wire = connect(bootstrap_sasl)
        shake(wire, "PLAIN")
        message = SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{password}".encode())
        wire.sock.sendall(frame_of(message, 2, 76) + ask)
        _, answer = wire.receive_numbered(SaslAuthenticateResponse, 2)
        if password == PASSWORD:
            assert answer.error_code == 0
            assert wire.receive_numbered(MetadataResponse, METADATA_VERSION)[0] == 77
        else:
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert wire.wait_closed() == b""


def test_steps_out_of_order_are_refused(bootstrap_sasl: str, connect: Connect) -> None:
    early = connect(bootstrap_sasl)
    with pytest.raises(LoginFailedError, match="SaslHandshake must come before"):
        authenticate(early, b"\0alice\0x")
    assert early.wait_closed() == b""
    twice = connect(bootstrap_sasl)
    shake(twice, "SCRAM-SHA-512")
    with pytest.raises(LoginFailedError) as refused:
        shake(twice, "PLAIN")
    assert refused.value.code == ErrorCode.ILLEGAL_SASL_STATE
    assert twice.wait_closed() == b""


def test_who_is_logged_in_and_who_need_not_cannot_log_in(
    start_broker: StartBroker, bootstrap_sasl: str, connect: Connect
) -> None:
    known, free = connect(bootstrap_sasl), connect(start_broker().bootstrap_servers)
    log_in(known)
    for wire in (known, free):
        for ask in (lambda w: shake(w, "PLAIN"), lambda w: authenticate(w, b"\0alice\0x")):
            with pytest.raises(LoginFailedError) as refused:
                ask(wire)
            assert refused.value.code == ErrorCode.ILLEGAL_SASL_STATE
        assert metadata(wire, []) == []


PLAIN_MESSAGES = [
    b"",
    b"alice",
    b"\0alice",
    b"\0alice\0",
    b"\0\0secret",
    b"bob\0alice\0x",
    b"\0a\0b\0c",
    b"\xff\0\xff\0",
]


@pytest.mark.parametrize("message", PLAIN_MESSAGES)
def test_a_message_that_is_not_one_of_plain_is_refused(
    message: bytes, bootstrap_sasl: str, connect: Connect
) -> None:
    wire = connect(bootstrap_sasl)
    shake(wire, "PLAIN")
    with pytest.raises(LoginFailedError) as refused:
        authenticate(wire, message)
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


Alter = Callable[[str], str]


@pytest.mark.parametrize(
    ("first", "final"),
    [
        (lambda text: text.replace("n,,", "p=tls-unique,,", 1), lambda text: text),
        (lambda text: text.replace("n,,", "y,,", 1), lambda text: text),
        (lambda text: text.replace("n,,", "n,a=admin,", 1), lambda text: text),
        (lambda text: text, lambda text: text.replace("c=biws", "c=eSws", 1)),  # "y,,"
        (lambda text: text, lambda text: text.replace("r=", "r=x", 1)),
        (lambda text: text, lambda text: text.replace(",p=", "x,p=", 1)),
        (
            lambda text: text,
            lambda text: text.rpartition("p=")[0] + "p=" + base64.b64encode(bytes(64)).decode(),
        ),
    ],
    ids=[
        "binding",
        "binding dropped",
        "for another",
        "other header",
        "other nonce",
        "longer nonce",
        "no proof",
    ],
)
def test_a_log_in_that_was_tampered_with_fails(
    first: Alter, final: Alter, bootstrap_sasl: str, connect: Connect
) -> None:
    wire = connect(bootstrap_sasl)
    shake(wire, "SCRAM-SHA-512")
    steps = login("SCRAM-SHA-512", USER, PASSWORD)

    def go() -> None:
        challenge = authenticate(wire, first(next(steps).decode()).encode())
        authenticate(wire, final(steps.send(challenge).decode()).encode())

    with pytest.raises(LoginFailedError) as refused:
        go()
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert wire.wait_closed() == b""


@pytest.mark.parametrize(
    ("binding", "nonce"), [("y,,", "{}"), ("n,a=alice,", "{}"), ("n,,", "{}x"), ("n,,", "abc")]
)
def test_a_final_message_must_repeat_header_and_nonce_even_if_the_proof_is_right(
    binding: str, nonce: str, bootstrap_sasl: str, connect: Connect
) -> None:
    def log_in_with(binding: str, nonce: str) -> None:
        wire = connect(bootstrap_sasl)
        shake(wire, "SCRAM-SHA-256")
        challenge = authenticate(wire, b"n,,n=alice,r=abc").decode()
        agreed, salt, iterations = (part[2:] for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(salt), int(iterations))
        unsigned = f"c={base64.b64encode(binding.encode()).decode()},r={nonce.format(agreed)}"
        key = hmac.digest(salted, b"Client Key", "sha256")
        signed = f"n=alice,r=abc,{challenge},{unsigned}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        authenticate(wire, f"{unsigned},p={proof}".encode())

    log_in_with("n,,", "{}")
    with pytest.raises(LoginFailedError, match="not understood"):
        log_in_with(binding, nonce)


def test_a_recorded_log_in_cannot_be_played_again(bootstrap_sasl: str, connect: Connect) -> None:
    wire = connect(bootstrap_sasl)
    shake(wire, "SCRAM-SHA-512")
    steps = login("SCRAM-SHA-512", USER, PASSWORD)
    first = next(steps)
    final = steps.send(authenticate(wire, first))
    authenticate(wire, final)
    again = connect(bootstrap_sasl)
    shake(again, "SCRAM-SHA-512")
    authenticate(again, first)
    with pytest.raises(LoginFailedError, match="not understood"):
        authenticate(again, final)


def test_an_unknown_user_gets_the_same_challenge_each_time_also_after_a_restart(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    def salts(bootstrap: str) -> list[tuple[str, str]]:
        found = []
        for user in (USER, "nobody", "nobody", "nobody else"):
            wire = connect(bootstrap)
            shake(wire, "SCRAM-SHA-256")
            _, salt, iterations = authenticate(wire, f"n,,n={user},r=abc".encode()).decode().split(",")
            found.append((salt, iterations))
        return found

    add_user_offline(tmp_path, USER, PASSWORD)
    broker = start_broker(data=tmp_path, sasl_mechanisms="SCRAM-SHA-256")
    before = salts(broker.bootstrap_servers)
    assert before[1] == before[2]
    assert len({salt for salt, _ in before}) == 3
    assert len({(len(salt), iterations) for salt, iterations in before}) == 1
    broker.stop()
    broker.start()
    assert salts(broker.bootstrap_servers) == before


def test_over_tls_plain_works_and_so_does_a_certificate_beside_it(
    start_broker: StartBroker, tmp_path: Path, certificates: Certificates
) -> None:
    bootstrap = start_with_user(start_broker, tmp_path / "data", **server_settings(certificates.server))
    for mechanism in ALL_MECHANISMS:
        with tls_wire(bootstrap, client_context(certificates)) as wire:
            log_in(wire, mechanism=mechanism)
            assert metadata(wire, []) == []


def test_connections_that_never_log_in_are_closed_and_keep_nobody_out(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    bootstrap = start_with_user(start_broker, tmp_path / "data", stall_ms_max=2_000)
    silent = [connect(bootstrap) for _ in range(200)]
    shake(silent[0], "PLAIN")
    wire = connect(bootstrap)
    log_in(wire)
    for each in silent:
        assert each.wait_closed() == b""
    assert metadata(wire, []) == []


def test_many_log_ins_at_once_leave_the_broker_answering(
    start_broker: StartBroker, tmp_path: Path, connect: Connect
) -> None:
    bootstrap = start_with_user(start_broker, tmp_path / "data")
    other = connect(bootstrap)
    log_in(other)
    wires = [connect(bootstrap) for _ in range(100)]
    for number, wire in enumerate(wires):
        shake(wire, "PLAIN")
        password = PASSWORD if number % 2 else "wrong"
        wire.send(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{password}".encode()), 2)
    assert metadata(other, []) == []
    for number, wire in enumerate(wires):
        answer = wire.receive(SaslAuthenticateResponse, 2)
        assert answer.error_code == (0 if number % 2 else ErrorCode.SASL_AUTHENTICATION_FAILED)


def test_no_password_is_logged_stored_or_shown_in_the_list_of_processes(
    start_broker: StartBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = (PASSWORD, "quite-wrong-secret")
    add_user_offline(tmp_path / "data", USER, PASSWORD)
    broker = start_broker(data=tmp_path / "data", process=True, sasl_mechanisms=",".join(ALL_MECHANISMS))
    for mechanism in ALL_MECHANISMS:
        with Wire(broker.bootstrap_servers) as wire:
            log_in(wire, mechanism=mechanism)
        with Wire(broker.bootstrap_servers) as wire, pytest.raises(LoginFailedError, match=WRONG):
            log_in(wire, USER, secrets[1], mechanism)
        with Wire(broker.bootstrap_servers) as wire:
            shake(wire, mechanism)
            wire.sock.sendall(f"\0{USER}\0{PASSWORD}".encode())
            wire.sock.close()
    shown = Path(f"/proc/{broker.pid}/cmdline").read_text() + Path(f"/proc/{broker.pid}/environ").read_text()
    broker.stop()
    logged = capfd.readouterr().err
    assert "log-in refused: user 'alice' is unknown or the password is wrong" in logged
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
    for secret in secrets:
        assert secret not in logged
        assert secret not in shown
        assert secret.encode() not in stored
    assert USER.encode() in stored
