"""SaslAuthenticate (36), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
