"""Committing, reading and deleting offsets: who may, and what is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oncestream.broker.groups import rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.offsets import Committed, Offsets, commit_record, tombstone
from oncestream.broker.groups.step import Step
from oncestream.broker.state_log import StateRecord
from oncestream.wire.error_codes import ErrorCode, KafkaError


class Coded(Protocol):
    """The place in an answer where the outcome of one partition goes."""

    error_code: int


class Commit(NamedTuple):
    """One partition of a commit, and where its outcome is told."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    told: Coded


class Committer(NamedTuple):
    """Who commits. Generation -1 without a member: a consumer that manages its partitions by itself."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


def check_committer(group: ClassicGroup, who: Committer, *, transactional: bool) -> None:
    if who.generation < 0 and group.is_empty:
        return
    if who.generation >= 0 or who.member_id or who.instance_id is not None:
        group.check_member(who.member_id, who.instance_id)
        if who.generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional and not group.is_empty:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is ClassicState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def keep_alive(group: ClassicGroup, who: Committer, step: Step) -> None:
    """A commit is a sign of life."""
    member = group.members.get(who.member_id)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        rebalance.start_session(group, member, step)


def commit_records(
    group_id: str, commits: Sequence[Commit], now_ms: int, retention_ms: int, metadata_max: int
) -> list[StateRecord]:
    """What is to be written; a commit whose metadata are too long is told so and left out."""
    records = []
    for commit in commits:
        metadata = commit.metadata or ""
        if len(metadata) > metadata_max:
            commit.told.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        expire_ms = -1 if retention_ms < 0 else now_ms + retention_ms
        committed = Committed(commit.offset, commit.leader_epoch, metadata, now_ms, expire_ms)
        records.append(commit_record(group_id, commit.topic, commit.partition, committed))
    return records


def fail_all(commits: Sequence[Commit], code: ErrorCode) -> None:
    for commit in commits:
        commit.told.error_code = code


def check_delete_offsets(group: ClassicGroup) -> None:
    if not group.is_empty and not group.is_consumer:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def delete_records(
    offsets: Offsets, group_id: str, topic: str, partitions: Sequence[int]
) -> list[StateRecord]:
    return [
        tombstone(group_id, topic, partition)
        for partition in partitions
        if offsets.get(group_id, topic, partition) or offsets.is_pending(group_id, topic, partition)
    ]
