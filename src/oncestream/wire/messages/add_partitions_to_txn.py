"""AddPartitionsToTxn (24), versions 0-5."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string, structs


class AddPartitionsToTxnRequest(Message, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = structs("4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = structs("0-3")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = structs()


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnResponse(
    Message, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = structs("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = structs("0-3")


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = structs()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = structs()


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()
