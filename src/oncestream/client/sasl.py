"""SASL PLAIN and SCRAM (RFC 5802, 7677): what the client says, and its check of what the server says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from typing import Final

ITERATIONS_MAX: Final = 1_000_000
# No channel binding: the base64 of "n,,", which stands before the first message.
_NO_BINDING: Final = "biws"

# Yields what to send, is sent what the server answered, ends when the login is done.
Login = Generator[bytes, bytes, None]


class LoginRefused(Exception):
    """The server did not prove that it knows the password, or said no."""


def login(mechanism: str, username: str, password: str) -> Login:
    """The client's side of a mechanism."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    return scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), username, password)


def scram(
    digest: str, username: str, password: str, nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24)
) -> Login:
    """SCRAM with `digest` sha256 or sha512."""
    first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce()}"
    server_first = (yield f"n,,{first_bare}".encode()).decode()
    said = _attributes(server_first)
    if not said.get("r", "").startswith(first_bare.rpartition(",r=")[2]):
        raise LoginRefused("the server answered another nonce than ours")
    iterations = int(said.get("i", "0"))
    if not 0 < iterations <= ITERATIONS_MAX:
        raise LoginRefused(f"the server wants {iterations} iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(said["s"]), iterations)
    without_proof = f"c={_NO_BINDING},r={said['r']}"
    signed = f"{first_bare},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = _attributes((yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode())
    if "e" in final:
        raise LoginRefused(final["e"])
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(final.get("v", "")), expected):
        raise LoginRefused("the server could not prove that it knows the password")


def _plain(username: str, password: str) -> Login:
    yield f"\0{username}\0{password}".encode()


def _attributes(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}
