"""SaslHandshake (17), versions 0-1: the client chooses the mechanism of its log-in.

After version 0 the messages of the log-in travel without headers, after version 1 inside SaslAuthenticate.
Differs from Apache Kafka: nothing that a client sees.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.security.sasl import LoginRefused
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    login = call.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    offered = list(login.mechanisms)
    try:
        await login.begin(request.mechanism, raw_tokens=call.version == 0)
    except LoginRefused:
        known = request.mechanism in offered
        code = ErrorCode.ILLEGAL_SASL_STATE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=offered)
    return SaslHandshakeResponse(mechanisms=offered)
