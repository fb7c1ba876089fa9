"""ListTransactions (66), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, int64, string, structs


class ListTransactionsRequest(Message, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsResponse(Message, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = structs()


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()
