"""AddPartitionsToTxn (24), versions 0-5: make partitions part of a transaction, or ask whether they are.

From version 4 on for several transactions at once, as Apache Kafka's brokers use it among themselves.
Differs from Apache Kafka: it waits for the end of the transaction before, where Kafka answers
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.topic_names import is_internal
from oncestream.broker.transactions.fencing import code_for
from oncestream.broker.transactions.state import (
    VERSION_EPOCH_BUMP,
    VERSION_OLD,
    TopicPartition,
    Transaction,
)
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_FENCED_SINCE: Final = 2
_BATCHED_SINCE: Final = 4

Done = Callable[[AddPartitionsToTxnResult], None]


def handle(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse | Later:
    if call.version < _BATCHED_SINCE:
        wanted = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    else:
        wanted = request.transactions
    if call.version >= _BATCHED_SINCE and not call.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    later = Later()
    results: list[AddPartitionsToTxnResult] = []

    def done(result: AddPartitionsToTxnResult) -> None:
        results.append(result)
        if len(results) < len(wanted):
            return
        if call.version < _BATCHED_SINCE:
            later.resolve(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results))
        else:
            later.resolve(AddPartitionsToTxnResponse(results_by_transaction=results))

    if not wanted:
        return AddPartitionsToTxnResponse()
    for want in wanted:
        _Adding(want, call, done).run()
    return later


class _Adding:
    """One transaction of the request."""

    def __init__(self, want: AddPartitionsToTxnTransaction, call: Call, done: Done) -> None:
        self._want = want
        self._call = call
        self._done = done
        self._producer = Producer(want.producer_id, want.producer_epoch)

    def run(self) -> None:
        want, node = self._want, self._call.node
        partitions = frozenset(_partitions(want.topics))
        wrong = self._wrong(partitions)
        if wrong:
            codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            self._done(_result(want, codes | wrong))
        elif want.verify_only:
            self._verify(partitions)
        else:
            version = VERSION_OLD if self._call.version < _BATCHED_SINCE else VERSION_EPOCH_BUMP
            node.transactions.add(want.transactional_id, self._producer, partitions, version, self._tell)

    def _wrong(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """What may not be added, or is not there; from version 4 on brokers ask, who have checked the rights."""
        call = self._call
        if call.version < _BATCHED_SINCE:
            name = self._want.transactional_id
            if not call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
                return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        wrong = {}
        for where in partitions:
            if call.version < _BATCHED_SINCE and not self._may_write(where.topic):
                wrong[where] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif call.node.partition(*where) is None:
                wrong[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return wrong

    def _may_write(self, topic: str) -> bool:
        return not is_internal(topic) and self._call.may(Operation.WRITE, ResourceType.TOPIC, topic)

    def _verify(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            known = self._call.node.transactions.verify(self._want.transactional_id, self._producer)
        except KafkaError as error:
            self._tell(error)
            return
        missing = dict.fromkeys(partitions - known, ErrorCode.TRANSACTION_ABORTABLE)
        self._done(_result(self._want, missing))

    def _tell(self, outcome: Transaction | KafkaError) -> None:
        codes: Mapping[TopicPartition, ErrorCode] = {}
        if isinstance(outcome, KafkaError):
            code = code_for(outcome, knows_fenced=self._call.version >= _FENCED_SINCE)
            codes = dict.fromkeys(_partitions(self._want.topics), code)
        self._done(_result(self._want, codes))


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _result(
    want: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    """Partitions that have no code of their own are in."""
    return AddPartitionsToTxnResult(
        transactional_id=want.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=codes.get(TopicPartition(topic.name, index), ErrorCode.NONE),
                    )
                    for index in topic.partitions
                ],
            )
            for topic in want.topics
        ],
    )
