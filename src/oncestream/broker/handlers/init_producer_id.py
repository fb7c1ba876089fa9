"""InitProducerId (22), versions 0-5: a producer id and epoch, for a transactional id or just for idempotence.

For a transactional id it fences whoever used it before and aborts what they left open; a producer that tells the
id and epoch it has (version 3) goes on from there unless somebody newer came (KIP-360).
Differs from Apache Kafka: an abort is waited for, where Kafka answers CONCURRENT_TRANSACTIONS at once.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.fencing import code_for
from oncestream.broker.transactions.state import NO_EPOCH, NO_PRODUCER_ID, Transaction
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FENCED_SINCE: Final = 4


def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse | Later:
    try:
        _check_rights(request.transactional_id, call)
    except KafkaError as error:
        return _failed(error.code)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return InitProducerIdResponse(producer_id=call.node.new_producer_id(), producer_epoch=0)
        except KafkaError as error:
            return _failed(error.code)
    expected = Producer(request.producer_id, request.producer_epoch) if has_id else None
    later = Later()

    def tell(outcome: Transaction | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            later.resolve(_failed(code_for(outcome, knows_fenced=call.version >= _FENCED_SINCE)))
        else:
            later.resolve(
                InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)
            )

    call.node.transactions.initialize(
        request.transactional_id, request.transaction_timeout_ms, expected, tell
    )
    return later


def _check_rights(transactional_id: str | None, call: Call) -> None:
    """Whoever may write to some topic may write without duplicates, too."""
    if transactional_id is not None:
        call.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not call.may_on_any(Operation.WRITE, ResourceType.TOPIC):
        call.require(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
