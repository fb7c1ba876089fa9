"""EndTxn (26), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
