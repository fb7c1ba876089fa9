"""Which open transaction holds back the readers of which partition, and who these readers are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.groups import CLASSIC, CONSUMER, describe_groups, list_groups
from oncestream.client.inspection import (
    describe_producers,
    known_transactions,
    list_transactions,
    partitions_of,
)
from oncestream.client.offsets import LATEST, committed_offsets, list_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import UnknownGroup


class OpenTransaction(NamedTuple):
    """A transaction that has written to a partition and has not ended there.

    `holds`: it is the one at which readers of committed data stop. `transactional_id`, `state` and `start_ms`
    are None where no coordinator knows the producer. `waiting_groups` read that partition.
    """

    partition: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    last_stable_offset: int
    high_watermark: int
    holds: bool
    transactional_id: str | None
    state: str | None
    start_ms: int | None
    waiting_groups: tuple[str, ...]


def open_transactions(cluster: Cluster, topics: Iterable[str] | None = None) -> list[OpenTransaction]:
    """Of these topics, or of all, by partition and first offset."""
    wanted = dict.fromkeys(partitions_of(cluster, topics), LATEST)
    stable = list_offsets(cluster, wanted)
    ends = list_offsets(cluster, wanted, read_committed=False)
    held = {
        partition: (stable[partition] or 0, ends[partition] or 0)
        for partition in wanted
        if (stable[partition] or 0) < (ends[partition] or 0)
    }
    if not held:
        return []
    producers = describe_producers(cluster, held)
    names = {each.producer_id: each.transactional_id for each in list_transactions(cluster)}
    writing = {each.producer_id for states in producers.values() for each in states}
    known = known_transactions(cluster, (name for number, name in names.items() if number in writing))
    readers = _readers(cluster, held)
    found = []
    for partition, (last_stable, end) in held.items():
        for producer in producers[partition]:
            if producer.txn_start_offset is None:
                continue
            name = names.get(producer.producer_id)
            state = known.get(name) if name is not None else None
            found.append(
                OpenTransaction(
                    partition,
                    producer.producer_id,
                    producer.epoch,
                    producer.coordinator_epoch,
                    producer.txn_start_offset,
                    producer.last_timestamp_ms,
                    last_stable,
                    end,
                    producer.txn_start_offset == last_stable,
                    name,
                    None if state is None else state.state,
                    None if state is None else state.start_ms,
                    tuple(sorted(readers.get(partition, ()))),
                )
            )
    return sorted(found, key=lambda each: (each.partition, each.start_offset))


def _readers(
    cluster: Cluster, partitions: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, set[str]]:
    """Groups that have committed an offset in each of these partitions, or have a member that reads it."""
    readers: dict[TopicPartition, set[str]] = {}
    for listing in list_groups(cluster):
        if listing.kind not in (CLASSIC, CONSUMER):
            continue
        reads = set(committed_offsets(cluster, listing.group, partitions, stable=False))
        try:
            (state,) = describe_groups(cluster, [listing.group])
            reads.update(each for member in state.members for each in member.assignment)
        except UnknownGroup:
            continue
        for partition in reads & partitions.keys():
            readers.setdefault(partition, set()).add(listing.group)
    return readers
