"""DescribeTransactions (65), version 0: state, producer, timeout and partitions of transactional ids.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from collections import defaultdict

from oncestream.broker.call import Call
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(wanted, call) for wanted in request.transactional_ids]
    )


def _describe(transactional_id: str, call: Call) -> TransactionState:
    if not call.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    txn = call.node.transactions.states.get(transactional_id)
    if txn is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return TransactionState(transactional_id=transactional_id, error_code=code)
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(txn.partitions):
        if call.sees(ResourceType.TOPIC, topic):
            topics[topic].append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=txn.state.label,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.started_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in topics.items()],
    )
