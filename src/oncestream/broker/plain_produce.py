"""Produce without a transaction to one topic, the short way: what producers do all day.

Anything out of the ordinary that can be seen before the first append goes the long way, through
`handlers/produce.py`, whose answers these are too.
"""

from __future__ import annotations

from typing import Final, Protocol

from oncestream.broker.call import Call
from oncestream.broker.flush_wait import Failures, FlushWait
from oncestream.broker.handlers.produce import ACKS_ALL, partition_failure
from oncestream.broker.node import Node, Topic
from oncestream.broker.outbox import Chunk
from oncestream.broker.partition import Partition
from oncestream.broker.security.principal import Principal
from oncestream.broker.topic_names import INTERNAL
from oncestream.broker.transactions.producing import is_transactional
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oncestream.wire.produce import PlainAnswer, PlainProduce, by_id, write_plain

_API: Final = "produce"
_ACKS: Final = (ACKS_ALL, 1)
_new: Final = tuple.__new__  # half the price of calling the class
_Refusals = dict[int, PartitionProduceResponse]  # by the partition's place in the request


class Client(Protocol):
    """Who sends it."""

    @property
    def principal(self) -> Principal: ...
    @property
    def peer(self) -> str: ...


def produce_plain(
    request: PlainProduce, node: Node, client: Client
) -> list[Chunk] | ProduceResponse | FlushWait | None:
    """The answer; None: nothing was done, the request must go the long way."""
    topic = _topic(request, node)
    acks, batches = request.acks, request.partitions
    if topic is None or acks not in _ACKS or node.catalog.quotas:
        return None
    if node.authorizer is not None and not _may_write(topic.name, request, node, client):
        return None
    partitions = topic.partitions
    for index, records in batches:
        if not 0 <= index < len(partitions) or is_transactional(records):
            return None
    answers: list[PlainAnswer] = []
    refusals: _Refusals = {}
    waits: dict[int, tuple[Partition, int]] = {}
    for index, records in batches:
        partition = partitions[index]
        try:
            base_offset, last_offset, append_time_ms, start_offset, _ = partition.append(records)
        except KafkaError as error:
            refusals[len(answers)] = partition_failure(index, error)
            answers.append(PlainAnswer(index, -1, -1, -1))
            continue
        if acks == ACKS_ALL and partition.high_watermark <= last_offset:
            waits[len(answers)] = partition, last_offset + 1
        answers.append(_new(PlainAnswer, (index, base_offset, append_time_ms, start_offset)))
    if waits:
        return _when_flushed(request, node, answers, refusals, waits)
    if refusals:
        return _response(request.version, request.topic, answers, refusals)
    return [write_plain(request, answers)]


def _when_flushed(
    request: PlainProduce,
    node: Node,
    answers: list[PlainAnswer],
    refusals: _Refusals,
    waits: dict[int, tuple[Partition, int]],
) -> FlushWait:
    """Nothing of the request may be kept while its answer waits: it lies in a buffer that is large, or used again."""
    version, topic = request.version, request.topic
    chunks: list[Chunk] = [write_plain(request, answers)]

    def answer(late: Failures) -> list[Chunk] | ProduceResponse:
        for place, error in late.items():
            refusals[place] = partition_failure(answers[place].partition, error)
        return _response(version, topic, answers, refusals) if refusals else chunks

    return FlushWait(waits, request.timeout_ms, node.flush_timeouts, answer)


def _may_write(topic: str, request: PlainProduce, node: Node, client: Client) -> bool:
    """A no is told, and audited, by the long way."""
    assert node.authorizer is not None
    call = Call(node, request.version, request.correlation_id, None, client.peer, client.principal, _API)
    allowed = node.authorizer.allows(client.principal, call.host, Operation.WRITE, ResourceType.TOPIC, topic)
    if allowed and node.audit is not None:
        node.audit.decided(call, Operation.WRITE, ResourceType.TOPIC, topic, allowed=True)
    return allowed


def _topic(request: PlainProduce, node: Node) -> Topic | None:
    name = (
        node.topic_name(request.topic) if by_id(request.version) else request.topic.decode("utf-8", "replace")
    )
    return None if name is None or name in INTERNAL else node.topics.get(name)


def _response(version: int, topic: bytes, answers: list[PlainAnswer], refusals: _Refusals) -> ProduceResponse:
    """The answer where not all went well."""
    of_partitions = [
        refusals.get(place)
        or PartitionProduceResponse(
            index=answer.partition,
            base_offset=answer.base_offset,
            log_append_time_ms=answer.append_time_ms,
            log_start_offset=answer.start_offset,
        )
        for place, answer in enumerate(answers)
    ]
    named = {"topic_id": topic} if by_id(version) else {"name": topic.decode()}
    return ProduceResponse(responses=[TopicProduceResponse(partition_responses=of_partitions, **named)])
