"""SaslAuthenticate (36), versions 0-2: one message of a log-in, and the answer to it.

Differs from Apache Kafka: a session has no end, so that nobody need log in again (KIP-368).
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.security.sasl import LoginRefused
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    if call.login is None:
        message = "this connection is logged in, or its listener asks for no log-in"
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
    try:
        return SaslAuthenticateResponse(auth_bytes=await call.login.step(bytes(request.auth_bytes)))
    except LoginRefused as refusal:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=refusal.told
        )
