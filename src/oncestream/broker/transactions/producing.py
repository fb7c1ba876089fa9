"""Produce in a transaction: may it, then the append as always, then the answer when the transaction is durable."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from oncestream.broker.call import Call, Hangup
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.admission import admit, still_ending
from oncestream.broker.transactions.state import TopicPartition
from oncestream.records.batch import HEADER_SIZE, TRANSACTIONAL
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.produce import ProduceRequest, ProduceResponse

_IDS_SINCE: Final = 13
_ABORTABLE_SINCE: Final = 11
_JOINS_SINCE: Final = 12
_ATTRIBUTES_POSITION: Final = 22  # their lower byte
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_POSITION: Final = 43

Refusals = Mapping[TopicPartition, KafkaError]
Answer = ProduceResponse | Later | None


def produce(
    request: ProduceRequest, transactional_id: str, call: Call, write: Callable[[Refusals], Answer]
) -> Answer:
    """`write` appends to the partitions that are not refused."""
    writers = _writers(request, call)
    joins = call.version >= _JOINS_SINCE
    if not writers:
        return write({})
    producers = set(writers.values())
    if len(producers) > 1:
        several = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "A request has one producer.")
        return write(dict.fromkeys(writers, several))
    try:
        refused = admit(
            call.node.transactions,
            transactional_id,
            producers.pop(),
            frozenset(writers),
            joins=joins,
            knows_abortable=call.version >= _ABORTABLE_SINCE,
        )
    except KafkaError:
        too_late = dict.fromkeys(writers, still_ending(knows_concurrent=joins))
        return _wait(
            request,
            transactional_id,
            call,
            lambda: produce(request, transactional_id, call, write),
            lambda: write(too_late),
        )
    answer = write(refused)
    if not joins or answer is None:
        return answer
    return _when_joined(answer, transactional_id, call)


def is_transactional(records: bytes | bytearray | memoryview) -> bool:
    return len(records) >= HEADER_SIZE and bool(records[_ATTRIBUTES_POSITION] & TRANSACTIONAL)


def _writers(request: ProduceRequest, call: Call) -> dict[TopicPartition, Producer]:
    """Who writes where; what is not there or may not be written to has its answer from the append."""
    writers = {}
    for topic in request.topic_data:
        name = topic.name if call.version < _IDS_SINCE else call.node.topic_name(topic.topic_id)
        for data in topic.partition_data:
            records = data.records or b""
            if (
                name is not None
                and is_transactional(records)
                and call.node.partition(name, data.index)
                and call.may(Operation.WRITE, ResourceType.TOPIC, name)
            ):
                producer = Producer(*_PRODUCER.unpack_from(records, _PRODUCER_POSITION))
                writers[TopicPartition(name, data.index)] = producer
    return writers


def _wait(
    request: ProduceRequest,
    transactional_id: str,
    call: Call,
    again: Callable[[], Answer],
    give_up: Callable[[], Answer],
) -> Later:
    if request.acks == 0:
        raise Hangup("produce with acks=0 failed: the transaction before has not ended yet")
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)  # the buffer it lies in is used again before we are
    later = Later()

    def go_on(step: Callable[[], Answer]) -> None:
        answer = step()
        if isinstance(answer, Later):
            answer.then(later.resolve)
        else:
            later.resolve(answer)

    call.node.transactions.when_settled(transactional_id, lambda: go_on(again), lambda: go_on(give_up))
    return later


def _when_joined(answer: ProduceResponse | Later, transactional_id: str, call: Call) -> Later:
    """Data and transaction log are flushed side by side: the answer waits for both."""
    later = Later()

    def written(response: ProduceResponse) -> None:
        def joined(error: KafkaError | None) -> None:
            if error is not None:
                _fail(response)
            later.resolve(response)

        call.node.transactions.ledger.when_durable(transactional_id, joined)

    if isinstance(answer, Later):
        answer.then(written)
    else:
        written(answer)
    return later


def _fail(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            answer.error_code = answer.error_code or ErrorCode.NOT_ENOUGH_REPLICAS
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
