"""SaslHandshake (17), versions 0-1."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
