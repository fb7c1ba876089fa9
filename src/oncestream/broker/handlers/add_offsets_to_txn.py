"""AddOffsetsToTxn (25), versions 0-4: offsets of a group are to be committed in a transaction.

Differs from Apache Kafka: it waits for the end of the transaction before, where Kafka answers
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.topic_names import OFFSETS_TOPIC
from oncestream.broker.transactions.fencing import code_for
from oncestream.broker.transactions.state import VERSION_OLD, TopicPartition, Transaction
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_SINCE: Final = 2


def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse | Later:
    try:
        call.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        call.require(Operation.READ, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    later = Later()

    def tell(outcome: Transaction | KafkaError) -> None:
        code = ErrorCode.NONE
        if isinstance(outcome, KafkaError):
            code = code_for(outcome, knows_fenced=call.version >= _FENCED_SINCE)
        later.resolve(AddOffsetsToTxnResponse(error_code=code))

    offsets = TopicPartition(OFFSETS_TOPIC, call.node.groups.partition_of(request.group_id))
    call.node.transactions.add(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset({offsets}),
        VERSION_OLD,
        tell,
    )
    return later
