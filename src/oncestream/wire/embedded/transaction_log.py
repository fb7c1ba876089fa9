"""The state of a transactional id, as a record of __transaction_state."""

from __future__ import annotations

from oncestream.wire.schema import Message, Struct, array, int8, int16, int32, int64, string, structs


class TransactionLogKey(Message, api_key=0, versions="0", flexible="none"):
    transactional_id: str = string()


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = structs(nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
    last_producer_epoch: int = int16("1+", default=-1, tag=9000)  # ours; Kafka's own readers skip the tag


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32)
