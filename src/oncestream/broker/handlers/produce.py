"""Produce (0), versions 3-13: append one record batch to each of some partitions.

acks=all is answered when the batch is as durable as the broker's settings promise, acks=1 when the operating
system has it, acks=0 never; an error with acks=0 closes the connection, the only way to tell.
Records that are not what the header of their batch says are refused (INVALID_RECORD), also in compressed batches.
Differs from Apache Kafka: INVALID_RECORD also where Kafka answers UNKNOWN_SERVER_ERROR, and for two faults that it
takes and that its readers stumble over: offsets that do not count 0, 1, 2... (uncompressed), lengths that are not those
of the record (compressed). Compressed records of more than 64 MiB, or the topic's max.message.bytes if that is more,
are MESSAGE_TOO_LARGE; a batch may have a million headers. acks=1 and acks=all differ by the flush only. A silent
producer is forgotten by the time of its last append, in Kafka by the times in its records.
In a transaction: from version 12 on (transaction version 2) partitions join by themselves, before it they must
have been added. A request that comes while the transaction before is still ending waits for it, where Kafka lets
clients try again; and one that comes after EndTxn is refused even before the markers are written.
What producers send all day does not come here: see `plain_produce.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from oncestream.broker.call import Call, Hangup
from oncestream.broker.flush_wait import Failures, FlushWait
from oncestream.broker.later import Later
from oncestream.broker.partition import Partition
from oncestream.broker.security.quota_values import PRODUCED
from oncestream.broker.security.refusals import refusal
from oncestream.broker.topic_names import INTERNAL
from oncestream.broker.transactions.producing import Refusals, is_transactional, produce
from oncestream.broker.transactions.state import TopicPartition
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError, RecordsRefused
from oncestream.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS_ALL = -1
_IDS_FROM = 13


class _Wait(NamedTuple):
    """An append whose answer must wait for the flush of all below an offset."""

    partition: Partition
    offset: int
    answer: PartitionProduceResponse


def handle(request: ProduceRequest, call: Call) -> ProduceResponse | Later | None:
    if call.node.catalog.quotas:
        call.charge(PRODUCED, _records_size(request))
    if call.node.authorizer is not None and not _may_be_transactional(request, call):
        return _refuse(request, refusal(ResourceType.TRANSACTIONAL_ID))
    if request.transactional_id is None:
        return _write(request, call, None)
    return produce(request, request.transactional_id, call, lambda refused: _write(request, call, refused))


def _write(request: ProduceRequest, call: Call, refused: Refusals | None) -> ProduceResponse | Later | None:
    """`refused`: partitions that are not in the transaction; None without a transaction."""
    waits: list[_Wait] = []
    response = ProduceResponse(throttle_time_ms=call.throttle_ms)
    for topic in request.topic_data:
        name: str | None = topic.name if call.version < _IDS_FROM else call.node.topic_name(topic.topic_id)
        if name is None or call.may(Operation.WRITE, ResourceType.TOPIC, name):
            answers = [
                _append(name, data, request.acks, call, refused, waits) for data in topic.partition_data
            ]
        else:
            answers = [
                partition_failure(data.index, refusal(ResourceType.TOPIC)) for data in topic.partition_data
            ]
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if request.acks == 0:
        _refuse_silent_errors(response)
        return None
    if request.acks == ACKS_ALL and waits:
        return _when_durable(response, waits, request.timeout_ms, call)
    return response


def _records_size(request: ProduceRequest) -> int:
    return sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)


def _may_be_transactional(request: ProduceRequest, call: Call) -> bool:
    if not any(
        is_transactional(data.records or b"") for topic in request.topic_data for data in topic.partition_data
    ):
        return True
    name = request.transactional_id
    return name is not None and call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _refuse(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[partition_failure(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == 0:
        _refuse_silent_errors(response)
        return None
    return response


def _append(
    name: str | None,
    data: PartitionProduceData,
    acks: int,
    call: Call,
    refused: Refusals | None,
    waits: list[_Wait],
) -> PartitionProduceResponse:
    try:
        if acks not in (0, 1, ACKS_ALL):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is none of -1, 0 and 1")
        partition = None if name is None else call.node.partition(name, data.index)
        if partition is None or name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(code, "This server does not host this topic-partition.")
        if name in INTERNAL:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
        records = data.records or b""
        if is_transactional(records):
            _check_transaction(refused, TopicPartition(name, data.index))
        appended = partition.append(memoryview(records))
    except KafkaError as error:
        return partition_failure(data.index, error)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.start_offset,
    )
    if acks == ACKS_ALL and partition.high_watermark <= appended.last_offset:
        waits.append(_Wait(partition, appended.last_offset + 1, answer))
    return answer


def _check_transaction(refused: Refusals | None, where: TopicPartition) -> None:
    if refused is None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise KafkaError(code, "A transactional batch needs a transactional id.")
    error = refused.get(where)
    if error is not None:
        raise error


def partition_failure(index: int, error: KafkaError) -> PartitionProduceResponse:
    wrong = error.records if isinstance(error, RecordsRefused) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=record.place, batch_index_error_message=record.message)
            for record in wrong
        ],
        error_message=error.message,
    )


def _when_durable(response: ProduceResponse, waits: list[_Wait], timeout_ms: int, call: Call) -> FlushWait:
    def answer(failures: Failures) -> ProduceResponse:
        for place, error in failures.items():
            _fail(waits[place].answer, error)
        return response

    by_place = {place: (wait.partition, wait.offset) for place, wait in enumerate(waits)}
    return FlushWait(by_place, timeout_ms, call.node.flush_timeouts, answer)


def _fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = -1
    answer.log_append_time_ms = answer.log_start_offset = -1


def _refuse_silent_errors(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise Hangup(f"produce with acks=0 failed: {answer.error_message}")
