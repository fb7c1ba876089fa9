"""A log-in by SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, from the chosen mechanism to the user's name.

A refusal takes a moment, and does not tell whether the user exists.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from oncestream.broker.catalog import Catalog
from oncestream.broker.security.principal import Principal
from oncestream.broker.security.scram import (
    BadMessage,
    ClientFirst,
    Credential,
    Mechanism,
    credential_of,
    final_answer,
    first_answer,
    is_proof,
    parse_final,
    parse_first,
    salted_password,
)
from oncestream.broker.security.users import credential_for, plain_credential_for

SCRAM: Final = {mechanism.label: mechanism for mechanism in Mechanism}
REFUSAL_DELAY_S: Final = 0.1


class LoginRefused(Exception):
    """`told` is for the client, `reason` for the log of the broker."""

    def __init__(self, told: str, reason: str = "") -> None:
        super().__init__(told)
        self.told = told
        self.reason = reason or told


class Login:
    """One connection's way from a stranger to a user; it ends with `principal` or with `failure`."""

    __slots__ = (
        "_catalog",
        "_exchange",
        "_tell_refusal",
        "failure",
        "mechanisms",
        "principal",
        "takes_raw_tokens",
    )

    def __init__(
        self,
        catalog: Catalog,
        mechanisms: tuple[str, ...],
        tell_refusal: Callable[[str], None] | None = None,
    ) -> None:
        self._catalog = catalog
        self._tell_refusal = tell_refusal
        self._exchange: _Plain | _Scram | None = None
        self.mechanisms = mechanisms
        self.takes_raw_tokens = False  # no SaslAuthenticate around them: the old way
        self.principal: Principal | None = None
        self.failure: str | None = None

    async def begin(self, mechanism: str, *, raw_tokens: bool) -> None:
        """The client chooses its mechanism, once."""
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms)
            await self._refuse(LoginRefused("", f"mechanism {mechanism[:64]!r} is none of {offered}"))
        if self._exchange is not None:
            await self._refuse(LoginRefused("", "a second SaslHandshake"))
        scram = SCRAM.get(mechanism)
        self._exchange = _Plain(self._catalog) if scram is None else _Scram(self._catalog, scram)
        self.takes_raw_tokens = raw_tokens

    async def step(self, token: bytes) -> bytes:
        """Takes a message of the client and gives the answer to it."""
        answer = b""
        try:
            if self._exchange is None:
                raise LoginRefused("SaslHandshake must come before SaslAuthenticate")
            answer = await self._exchange.step(token)
            if self._exchange.user is not None:
                self.principal = Principal("User", self._exchange.user)
        except BadMessage as error:
            await self._refuse(LoginRefused(f"the message is not understood: {error}"))
        except LoginRefused as refusal:
            await self._refuse(refusal)
        return answer

    async def _refuse(self, refusal: LoginRefused) -> None:
        """Whoever guesses passwords has to wait for each answer."""
        await asyncio.sleep(REFUSAL_DELAY_S)
        self.failure = f"log-in refused: {refusal.reason}"
        if self._tell_refusal is not None:
            self._tell_refusal(refusal.reason)
        raise refusal


class _Plain:
    """User name and password in plain text, checked against the hashes kept for SCRAM (RFC 4616)."""

    __slots__ = ("_catalog", "user")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.user: str | None = None

    async def step(self, token: bytes) -> bytes:
        try:
            acts_for, user, password = token.decode().split("\0")
        except ValueError:
            raise BadMessage("not a message of PLAIN") from None
        if not user or acts_for not in ("", user):
            raise BadMessage("it has no user name, or wants to act for another user")
        kept = plain_credential_for(self._catalog, user)
        loop = asyncio.get_running_loop()
        given = await loop.run_in_executor(None, _credential_like, kept, password)
        if not hmac.compare_digest(given.stored_key, kept.stored_key):
            raise _wrong_password(user)
        self.user = user
        return b""


class _Scram:
    """Two messages each way; the password itself never travels."""

    __slots__ = ("_catalog", "_credential", "_first", "_first_answer", "_mechanism", "_nonce", "user")

    def __init__(self, catalog: Catalog, mechanism: Mechanism) -> None:
        self._catalog = catalog
        self._mechanism = mechanism
        self._first: ClientFirst | None = None
        self._first_answer = self._nonce = ""
        self._credential: Credential | None = None
        self.user: str | None = None

    async def step(self, token: bytes) -> bytes:
        return self._begin(token) if self._first is None else self._end(self._first, token)

    def _begin(self, token: bytes) -> bytes:
        self._first = parse_first(token)
        self._credential = credential_for(self._catalog, self._first.user, self._mechanism)
        self._nonce = self._first.nonce + secrets.token_urlsafe(24)
        self._first_answer = first_answer(self._nonce, self._credential)
        return self._first_answer.encode()

    def _end(self, first: ClientFirst, token: bytes) -> bytes:
        assert self._credential is not None
        final = parse_final(token)
        if final.nonce != self._nonce:
            raise BadMessage("another nonce than the one agreed upon")
        if final.binding != first.gs2_header.encode():
            raise BadMessage("another header than that of the first message")
        signed = f"{first.bare},{self._first_answer},{final.unsigned}".encode()
        if not is_proof(self._credential, final.proof, signed):
            raise _wrong_password(first.user)
        self.user = first.user
        return final_answer(self._credential, signed)


def _credential_like(kept: Credential, password: str) -> Credential:
    salted = salted_password(kept.mechanism, password, kept.salt, kept.iterations)
    return credential_of(kept.mechanism, salted, kept.salt, kept.iterations)


def _wrong_password(user: str) -> LoginRefused:
    return LoginRefused(
        "wrong user name or password", f"user {user[:256]!r} is unknown or the password is wrong"
    )
