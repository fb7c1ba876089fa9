"""What the coordinator says of a pipeline's transaction."""

from __future__ import annotations

from contextlib import closing

from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.settings import ClientSettings
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def transaction_of(bootstrap: str, pipeline: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[pipeline])
    with closing(Cluster(ClientSettings.of(bootstrap))) as cluster:
        told = cluster.ask_coordinator(
            CoordinatorKind.TRANSACTION, pipeline, request, DescribeTransactionsResponse, lambda told: told
        )
    return told.transaction_states[0]
