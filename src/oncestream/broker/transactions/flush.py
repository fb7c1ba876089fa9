"""What is to be committed must be on the disk before the decision to commit is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncestream.broker.transactions.state import Transaction
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node


def when_flushed(node: Node, txn: Transaction, then: Callable[[KafkaError | None], None]) -> None:
    """Calls back when all that the producer wrote is as durable as the settings promise; at once if it is."""
    unsynced = []
    for where in txn.partitions:
        partition = node.partition(*where)
        if partition is not None:
            written = partition.log.end_offset_of(txn.producer_id)
            if partition.high_watermark < written:
                unsynced.append((partition, written))
    if not unsynced:
        then(None)
        return
    left = len(unsynced)
    failed: list[KafkaError] = []

    def synced(error: KafkaError | None) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            failed.append(error)
        if not left:
            then(failed[0] if failed else None)

    for partition, written in unsynced:
        partition.when_synced(written, synced)
