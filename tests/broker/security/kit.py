"""Parts of the security tests: connections with TLS, log-ins, settings of secure brokers."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

from oncestream.broker.security.users import add_user_offline
from oncestream.client.sasl import login
from oncestream.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from oncestream.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.conftest import StartBroker
from tests.broker.kit import Wire, framed
from tests.certificates import Certificates, Pair

ALL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER: Final = "alice"
PASSWORD: Final = "correct horse, battery=staple"


class LoginFailedError(Exception):
    """What the broker answered: its error code and its message."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def server_settings(pair: Pair) -> dict[str, Any]:
    return {"tls_certificate": pair.certificate, "tls_key": pair.key}


def mutual_settings(certificates: Certificates, client_auth: str = "required") -> dict[str, Any]:
    return {
        **server_settings(certificates.server),
        "tls_client_ca": certificates.ca,
        "tls_client_auth": client_auth,
    }


def start_with_user(start_broker: StartBroker, folder: Path, **settings: Any) -> str:
    """A broker that asks for a log-in, and knows alice; its address."""
    add_user_offline(folder, USER, PASSWORD)
    asked = {"sasl_mechanisms": ",".join(ALL_MECHANISMS), **settings}
    return start_broker(data=folder, **asked).bootstrap_servers


def client_context(certificates: Certificates, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def tls_wire(bootstrap: str, context: ssl.SSLContext, host: str = "localhost") -> Wire:
    """A connection after its handshake."""
    wire = Wire(bootstrap)
    try:
        wire.sock = context.wrap_socket(wire.sock, server_hostname=host)
    except BaseException:
        wire.close()
        raise
    return wire


def log_in(
    wire: Wire, user: str = USER, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512", version: int = 2
) -> None:
    shake(wire, mechanism)
    steps = login(mechanism, user, password)
    message = next(steps)
    try:
        while True:
            message = steps.send(authenticate(wire, message, version))
    except StopIteration:
        pass


def shake(wire: Wire, mechanism: str, version: int = 1) -> list[str]:
    """Chooses the mechanism; which ones there are."""
    answer = wire.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)
    if answer.error_code:
        raise LoginFailedError(answer.error_code, None)
    return answer.mechanisms


def exchange_tokens(wire: Wire, mechanism: str, password: str) -> None:
    """A log-in of the old kind: its messages travel without headers."""
    shake(wire, mechanism, version=0)
    steps = login(mechanism, USER, password)
    message = next(steps)
    try:
        while True:
            wire.sock.sendall(framed(message))
            message = steps.send(wire.receive_frame())
    except StopIteration:
        pass


def authenticate(wire: Wire, message: bytes, version: int = 2) -> bytes:
    answer = wire.ask(SaslAuthenticateRequest(auth_bytes=message), version, SaslAuthenticateResponse)
    if answer.error_code:
        raise LoginFailedError(answer.error_code, answer.error_message)
    assert answer.session_lifetime_ms == 0
    return bytes(answer.auth_bytes)
