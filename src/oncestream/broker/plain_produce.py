"""Produce without a transaction to one topic, the short way: what producers do all day.

Anything out of the ordinary that can be seen before the first append goes the long way, through
`handlers/produce.py`, whose answers these are too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncestream.broker.flush_wait import FlushWait
from oncestream.broker.handlers.produce import ACKS_ALL, partition_failure
from oncestream.broker.node import Node, Topic
from oncestream.broker.outbox import Chunk
from oncestream.broker.partition import Partition
from oncestream.broker.topic_names import INTERNAL
from oncestream.broker.transactions.producing import is_transactional
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oncestream.wire.produce import PlainAnswer, PlainProduce, by_id, write_plain

_ACKS: Final = (ACKS_ALL, 1)


def produce_plain(request: PlainProduce, node: Node) -> list[Chunk] | ProduceResponse | FlushWait | None:
    """The answer; None: nothing was done, the request must go the long way."""
    topic = _topic(request, node)
    if topic is None or request.acks not in _ACKS:
        return None
    partitions = topic.partitions
    for index, records in request.partitions:
        if not 0 <= index < len(partitions) or is_transactional(records):
            return None
    answers: list[PlainAnswer] = []
    failures: dict[int, KafkaError] = {}
    waits: list[tuple[Partition, int]] = []
    places: list[int] = []  # in `answers`, of those that wait
    for index, records in request.partitions:
        partition = partitions[index]
        try:
            base_offset, last_offset, append_time_ms, start_offset, _ = partition.append(records)
        except KafkaError as error:
            failures[len(answers)] = error
            answers.append(PlainAnswer(index, -1, -1, -1))
            continue
        if request.acks == ACKS_ALL and partition.high_watermark <= last_offset:
            waits.append((partition, last_offset + 1))
            places.append(len(answers))
        answers.append(PlainAnswer(index, base_offset, append_time_ms, start_offset))
    if not waits:
        return _answer(request, answers, failures)
    return FlushWait(
        waits,
        request.timeout_ms,
        node.loop,
        lambda late: _answer(
            request, answers, failures | {places[wait]: error for wait, error in late.items()}
        ),
    )


def _topic(request: PlainProduce, node: Node) -> Topic | None:
    if by_id(request.version):
        name = node.topic_name(request.topic) or ""
    else:
        name = request.topic.decode("utf-8", "replace")
    return None if name in INTERNAL else node.topics.get(name)


def _answer(
    request: PlainProduce, answers: list[PlainAnswer], failures: Mapping[int, KafkaError]
) -> list[Chunk] | ProduceResponse:
    if not failures:
        return [write_plain(request, answers)]
    topic = TopicProduceResponse(
        partition_responses=[
            partition_failure(answer.index, failures[place])
            if place in failures
            else PartitionProduceResponse(
                index=answer.index,
                base_offset=answer.base_offset,
                log_append_time_ms=answer.append_time_ms,
                log_start_offset=answer.start_offset,
            )
            for place, answer in enumerate(answers)
        ]
    )
    if by_id(request.version):
        topic.topic_id = request.topic
    else:
        topic.name = request.topic.decode()
    return ProduceResponse(responses=[topic])
