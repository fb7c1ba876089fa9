"""How a client is told that somebody newer uses its transactional id."""

from __future__ import annotations

from oncestream.wire.error_codes import ErrorCode, KafkaError


def code_for(error: KafkaError, *, knows_fenced: bool) -> ErrorCode:
    """Clients from before PRODUCER_FENCED know INVALID_PRODUCER_EPOCH for it."""
    if error.code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
