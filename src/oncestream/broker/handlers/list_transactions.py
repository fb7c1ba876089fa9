"""ListTransactions (66), versions 0-2: transactional ids, by state, producer id, age (1) and pattern (2).

Differs from Apache Kafka: a pattern is one of those that cannot hold the broker up, see groups/topic_regex.py.
"""

from __future__ import annotations

import re

from oncestream.broker.call import Call
from oncestream.broker.groups.topic_regex import check_regex
from oncestream.broker.transactions.state import State, Transaction
from oncestream.wire.acl_codes import ResourceType
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_LABELS = {state.label for state in State}


def handle(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    try:
        check_regex(request.transactional_id_pattern or ".*")
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    pattern = re.compile(request.transactional_id_pattern or ".*", re.DOTALL)
    now_ms = call.node.clock.now_ms()
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _LABELS],
        transaction_states=[
            TransactionState(
                transactional_id=txn.id, producer_id=txn.producer_id, transaction_state=txn.state.label
            )
            for txn in call.node.transactions.states
            if _is_wanted(txn, request, now_ms)
            and call.sees(ResourceType.TRANSACTIONAL_ID, txn.id)
            and pattern.fullmatch(txn.id)
        ],
    )


def _is_wanted(txn: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and txn.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and txn.state.label not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - txn.started_ms > request.duration_filter
