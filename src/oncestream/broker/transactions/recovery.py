"""Makes the partitions and the transaction log agree, after a crash in which one reached the disk and one not.

A partition joins and is written to at once, and both are flushed side by side: power lost in between may leave
records in a partition of which the log knows nothing. Apache Kafka flushes neither, and leaves such a
transaction hanging.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions import markers
from oncestream.broker.transactions.join import join
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, TopicPartition, Transaction
from oncestream.broker.transactions.states import States

if TYPE_CHECKING:
    from oncestream.broker.node import Node
    from oncestream.storage.producers import OpenTransaction

logger = logging.getLogger("oncestream.broker")


def reconcile(node: Node, states: States) -> list[Transaction]:
    """Aborts what nobody can end any more; answers transactions that have more partitions than the log says."""
    owners = {txn.producer_id: txn for txn in states}
    adopted: dict[str, Transaction] = {}
    for topic in node.topics.values():
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.index)
            for found in partition.log.open_transactions():
                owner = owners.get(found.producer_id)
                if owner is not None and where in owner.partitions:
                    continue
                if owner is not None and _is_current(owner, found):
                    producer = Producer(found.producer_id, found.producer_epoch)
                    now_ms = node.clock.now_ms()
                    owner = join(owner, producer, frozenset({where}), VERSION_EPOCH_BUMP, now_ms)
                    owners[found.producer_id] = adopted[owner.id] = owner
                else:
                    _abort(node, where, found, owner)
    return list(adopted.values())


def _is_current(owner: Transaction, found: OpenTransaction) -> bool:
    """Whether the producer may still go on with it: then it is not ours to abort."""
    return owner.epoch == found.producer_epoch and not owner.state.is_ending


def _abort(node: Node, where: TopicPartition, found: OpenTransaction, owner: Transaction | None) -> None:
    epoch = found.producer_epoch if owner is None else max(owner.epoch, found.producer_epoch)
    logger.warning(
        "transaction without an owner is aborted partition=%s producer_id=%d epoch=%d first_offset=%d",
        *(where, found.producer_id, found.producer_epoch, found.first_offset),
    )
    marker = markers.Marker(Producer(found.producer_id, epoch), commit=False)
    markers.write(node, marker, where, lambda _: None)
