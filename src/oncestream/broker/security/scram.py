"""SCRAM (RFC 5802, 7677), the server's side: credentials, and the two messages of a log-in. Pure.

Differs from Apache Kafka: user names may hold any UTF-8; no delegation tokens. As there, passwords are taken as
their UTF-8 bytes, without SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Self

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
ITERATIONS: Final = 8192
SALT_BYTES: Final = 26  # as many as Kafka's own tools make

_VALUE: Final = r"[^,\0]+"
_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_VALUE}))?,)(?P<bare>n=(?P<name>{_VALUE}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rf"(?:,[A-Za-z]+={_VALUE})*)"
)
_FINAL: Final = re.compile(
    rf"(?P<unsigned>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+={_VALUE})*?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class Mechanism(IntEnum):
    """The numbers are those of Kafka's protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class Credential:
    """What the broker keeps of a password: enough to check it, not enough to log in with."""

    mechanism: Mechanism
    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def to_json(self) -> dict[str, object]:
        return {
            "salt": self.salt.hex(),
            "iterations": self.iterations,
            "stored_key": self.stored_key.hex(),
            "server_key": self.server_key.hex(),
        }

    @classmethod
    def of_json(cls, mechanism: Mechanism, value: Mapping[str, object]) -> Self:
        salt, stored_key, server_key = (
            bytes.fromhex(str(value[name])) for name in ("salt", "stored_key", "server_key")
        )
        return cls(mechanism, salt, int(str(value["iterations"])), stored_key, server_key)


class BadMessage(ValueError):
    """A SCRAM message that makes no sense, or asks for what is not offered."""


class ClientFirst(NamedTuple):
    """`n,,n=alice,r=...`"""

    gs2_header: str
    bare: str
    user: str
    nonce: str


class ClientFinal(NamedTuple):
    """`c=biws,r=...,p=...`"""

    unsigned: str
    binding: bytes
    nonce: str
    proof: bytes


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The expensive part, by intent; it lets other threads run meanwhile."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", mechanism.digest)
    return Credential(mechanism, salt, iterations, stored_key, server_key)


def parse_first(token: bytes) -> ClientFirst:
    """Only the header `n,,` is taken: no channel binding, and nobody logs in for somebody else."""
    text = _text(token)
    if text.startswith(("p=", "y,")):
        raise BadMessage("channel binding is not offered")
    match = _FIRST.fullmatch(text)
    if match is None:
        raise BadMessage("not a first message of SCRAM")
    user = _name(match["name"])
    if match["authzid"] is not None and _name(match["authzid"]) != user:
        raise BadMessage("it wants to act for another user")
    return ClientFirst(match["gs2"], match["bare"], user, match["nonce"])


def first_answer(nonce: str, credential: Credential) -> str:
    return f"r={nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"


def parse_final(token: bytes) -> ClientFinal:
    match = _FINAL.fullmatch(_text(token))
    if match is None:
        raise BadMessage("not a final message of SCRAM")
    return ClientFinal(match["unsigned"], _bytes(match["binding"]), match["nonce"], _bytes(match["proof"]))


def is_proof(credential: Credential, proof: bytes, signed: bytes) -> bool:
    """Whether the client knows the password. `signed` are the three messages that both sides saw."""
    digest = credential.mechanism.digest
    signature = hmac.digest(credential.stored_key, signed, digest)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)


def final_answer(credential: Credential, signed: bytes) -> bytes:
    """The broker's own proof."""
    signature = hmac.digest(credential.server_key, signed, credential.mechanism.digest)
    return b"v=" + base64.b64encode(signature)


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise BadMessage("not UTF-8") from None


def _name(text: str) -> str:
    if re.search(r"=(?!2C|3D)", text):
        raise BadMessage("a user name with a lone '='")
    return text.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise BadMessage("not base64") from None
