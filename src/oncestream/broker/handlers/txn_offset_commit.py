"""TxnOffsetCommit (28), versions 0-5: offsets of a group that count when the transaction commits.

Version 5 (transaction version 2) makes the group's partition of the offsets topic join by itself; before, a
transaction that AddOffsetsToTxn has not prepared is refused.
Differs from Apache Kafka: version 5 waits for the end of the transaction before, where Kafka answers
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.groups import commits
from oncestream.broker.groups.commits import Commit, Committer
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.topic_names import OFFSETS_TOPIC
from oncestream.broker.transactions.admission import admit, still_ending
from oncestream.broker.transactions.state import TopicPartition
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ABORTABLE_SINCE: Final = 4
_JOINS_SINCE: Final = 5


def handle(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse | Later:
    refused = None
    try:
        call.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        call.require(Operation.READ, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        refused = error.code
    answer = TxnOffsetCommitResponse()
    known: list[Commit] = []
    for topic in request.topics:
        told = TxnOffsetCommitResponseTopic(name=topic.name)
        answer.topics.append(told)
        known += _check_topic(topic, told, call, refused)
    if not known:
        return answer
    later = Later()
    _commit(request, known, answer, later, call)
    return later


def _commit(
    request: TxnOffsetCommitRequest,
    known: list[Commit],
    answer: TxnOffsetCommitResponse,
    later: Later,
    call: Call,
) -> None:
    def refuse(error: KafkaError) -> None:
        for made in known:
            made.told.error_code = error.code
        later.resolve(answer)

    groups, transactions = call.node.groups, call.node.transactions
    producer = Producer(request.producer_id, request.producer_epoch)
    where = TopicPartition(OFFSETS_TOPIC, groups.partition_of(request.group_id))
    joins = call.version >= _JOINS_SINCE
    try:
        refused = admit(
            transactions,
            request.transactional_id,
            producer,
            frozenset({where}),
            joins=joins,
            knows_abortable=call.version >= _ABORTABLE_SINCE,
        )
    except KafkaError:
        transactions.when_settled(
            request.transactional_id,
            lambda: _commit(request, known, answer, later, call),
            lambda: refuse(still_ending(knows_concurrent=True)),
        )
        return
    if refused:
        refuse(refused[where])
        return
    committed = Later()
    who = Committer(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    commits.commit_in_transaction(groups, producer, who, known, answer, committed)

    def joined(error: KafkaError | None) -> None:
        if error is None:
            later.resolve(answer)
        else:
            refuse(error)

    committed.then(lambda _: transactions.ledger.when_durable(request.transactional_id, joined))


def _check_topic(
    topic: TxnOffsetCommitRequestTopic,
    told: TxnOffsetCommitResponseTopic,
    call: Call,
    refused: ErrorCode | None,
) -> list[Commit]:
    """The partitions that exist and may be read; the others have their answer."""
    known = []
    if refused is None and not call.may(Operation.READ, ResourceType.TOPIC, topic.name):
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for want in topic.partitions:
        place = TxnOffsetCommitResponsePartition(partition_index=want.partition_index)
        told.partitions.append(place)
        if refused is not None:
            place.error_code = refused
            continue
        if call.node.partition(topic.name, want.partition_index) is None:
            place.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        known.append(
            Commit(
                topic.name,
                want.partition_index,
                want.committed_offset,
                want.committed_leader_epoch,
                want.committed_metadata,
                place,
            )
        )
    return known
