"""EndTxn (26), versions 0-5: commit or abort the open transaction of a transactional id.

Version 5 (transaction version 2) answers the producer id and epoch of the next transaction, and may abort one
that never began. Answered when the data and the decision are durable; the markers follow.
Differs from Apache Kafka: a repeated request waits for the end, where Kafka answers CONCURRENT_TRANSACTIONS. A commit
(version 5) that comes after the transaction timed out is answered PRODUCER_FENCED, as by Kafka after 4.3 (KAFKA-20785),
so that a commit that is answered INVALID_TXN_STATE says one thing: nothing has joined the transaction.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.fencing import code_for
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, VERSION_OLD, Transaction
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_SINCE: Final = 2
_EPOCH_BUMP_SINCE: Final = 5


def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse | Later:
    if not call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    later = Later()

    def tell(outcome: Transaction | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            code = code_for(outcome, knows_fenced=call.version >= _FENCED_SINCE)
            later.resolve(EndTxnResponse(error_code=code))
        else:
            later.resolve(EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch))

    call.node.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        VERSION_EPOCH_BUMP if call.version >= _EPOCH_BUMP_SINCE else VERSION_OLD,
        tell,
    )
    return later
