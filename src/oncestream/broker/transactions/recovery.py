"""Makes the partitions and the transaction log agree, after a crash in which one reached the disk and one not.

A partition joins and is written to at once, and both are flushed side by side: power lost in between may leave
records in a partition of which the log knows nothing, even of a transaction whose forerunner, says the log, is
still ending. Apache Kafka flushes neither, and leaves such a transaction hanging.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions import markers
from oncestream.broker.transactions.end import complete
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, TopicPartition, Transaction
from oncestream.broker.transactions.states import States
from oncestream.storage.room import DiskFull
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node
    from oncestream.storage.producers import OpenTransaction

logger = logging.getLogger("oncestream.broker")


def reconcile(
    node: Node, states: States, again: Callable[[Callable[[], None]], None]
) -> Mapping[str, frozenset[TopicPartition]]:
    """Aborts what nobody can end any more; answers by transactional id what is to join the transaction in force.

    Where a transaction is ending, that is the one after it. `again` does what failed after a while.
    """
    open_ = list(_open_transactions(node))
    if not open_:
        return {}
    owners = {producer.id: txn for txn in states for producer in (txn.producer, complete_of(txn).producer)}
    adopted: defaultdict[str, set[TopicPartition]] = defaultdict(set)
    for where, found in open_:
        owner = owners.get(found.producer_id)
        if owner is not None and _is_known(owner, where, found):
            continue
        if owner is not None and complete_of(owner).producer == (found.producer_id, found.producer_epoch):
            adopted[owner.id].add(where)
        else:
            _abort(node, where, found, owner, again)
    return {transactional_id: frozenset(partitions) for transactional_id, partitions in adopted.items()}


def owed(node: Node, txn: Transaction) -> frozenset[TopicPartition]:
    """The partitions of a transaction that was ending which have no marker of it yet.

    From transaction version 2 on the marker brings the new epoch, so one that is there is known by it; another
    one would end what the producer has begun since. Before, nothing can have begun, and one more does no harm.
    """
    if txn.version < VERSION_EPOCH_BUMP:
        return txn.partitions
    return frozenset(where for where in txn.partitions if not _has_epoch(node, where, txn.producer))


def complete_of(txn: Transaction) -> Transaction:
    return complete(txn, txn.updated_ms) if txn.state.is_ending else txn


def _open_transactions(node: Node) -> Iterator[tuple[TopicPartition, OpenTransaction]]:
    for topic in node.topics.values():
        for partition in topic.partitions:
            for found in partition.log.open_transactions():
                yield TopicPartition(topic.name, partition.index), found


def _is_known(owner: Transaction, where: TopicPartition, found: OpenTransaction) -> bool:
    if where not in owner.partitions or found.producer_id != owner.producer_id:
        return False
    is_next = owner.state.is_ending and owner.version >= VERSION_EPOCH_BUMP
    return not is_next or found.producer_epoch < owner.epoch


def _has_epoch(node: Node, where: TopicPartition, producer: Producer) -> bool:
    partition = node.partition(*where)
    known = partition.log.producers() if partition is not None else []
    return any(p.producer_id == producer.id and p.producer_epoch >= producer.epoch for p in known)


def _abort(
    node: Node,
    where: TopicPartition,
    found: OpenTransaction,
    owner: Transaction | None,
    again: Callable[[Callable[[], None]], None],
) -> None:
    epoch = found.producer_epoch
    if owner is not None and owner.producer_id == found.producer_id:
        epoch = max(epoch, owner.epoch)
    logger.warning(
        "transaction without an owner is aborted partition=%s producer_id=%d epoch=%d first_offset=%d",
        *(where, found.producer_id, found.producer_epoch, found.first_offset),
    )
    marker = markers.Marker(Producer(found.producer_id, epoch), commit=False)

    def write() -> None:
        markers.write(node, marker, where, written)

    def written(error: KafkaError | None) -> None:
        if isinstance(error, DiskFull):
            again(write)

    write()
