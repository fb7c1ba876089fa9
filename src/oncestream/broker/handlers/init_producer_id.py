"""InitProducerId (22), versions 0-5: an id for an idempotent producer.

Differs from Apache Kafka: a transactional id is answered with TRANSACTIONAL_ID_NOT_FOUND until the
transaction coordinator is there.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=call.node.new_producer_id(), producer_epoch=0)
