"""Committing and deleting offsets: who may, and what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from oncestream.broker.groups import rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.consumer_group import ConsumerGroup
from oncestream.broker.groups.offsets import Committed, commit_record, tombstone
from oncestream.broker.groups.step import Step
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer, StateRecord
from oncestream.storage.config import INT64_MAX
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.schema import Message

if TYPE_CHECKING:
    from oncestream.broker.groups.coordinator import GroupCoordinator

_MEMBER_EPOCHS_SINCE: Final = 9


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


def commit(
    coordinator: GroupCoordinator,
    who: Committer,
    commits: Sequence[Commit],
    answer: Message,
    later: Later,
    *,
    version: int,
    retention_ms: int = -1,
) -> None:
    """Writes the offsets. When `answer` goes out, every commit has told its outcome in it."""
    step = Step(coordinator.runner.now_ms())
    try:
        group = coordinator.group(who.group_id)
        if isinstance(group, ClassicGroup):
            _check(group, who, transactional=False)
            _keep_alive(group, who)
        elif group is not None:
            commits = _check_consumer(coordinator, group, who, commits, version)
        elif who.generation >= 0:
            newer = version >= _MEMBER_EPOCHS_SINCE
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION)
    except KafkaError as error:
        _fail_all(commits, error.code)
        later.resolve(answer)
        return
    _write(coordinator, who.group_id, commits, answer, later, step, retention_ms, None)


def commit_in_transaction(
    coordinator: GroupCoordinator,
    producer: Producer,
    who: Committer,
    commits: Sequence[Commit],
    answer: Message,
    later: Later,
) -> None:
    """TxnOffsetCommit: the offsets are pending until the marker of the producer's transaction comes."""
    try:
        if not who.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = coordinator.group(who.group_id)
        if isinstance(group, ClassicGroup):
            _check(group, who, transactional=True)
        elif group is not None:
            commits = _check_consumer(coordinator, group, who, commits, None)
        elif who.generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    except KafkaError as error:
        _fail_all(commits, error.code)
        later.resolve(answer)
        return
    step = Step(coordinator.runner.now_ms())
    _write(coordinator, who.group_id, commits, answer, later, step, -1, producer)


def delete(
    coordinator: GroupCoordinator, group_id: str, partitions: Mapping[str, Sequence[int]], step: Step
) -> set[str]:
    """Deletes the offsets of these partitions; answers the topics that are in use, whose offsets stay."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    group = coordinator.group(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.is_empty and not group.is_consumer:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    in_use = {topic for topic in partitions if group.is_subscribed_to(topic)}
    offsets = coordinator.state.offsets
    for topic in partitions.keys() - in_use:
        for partition in partitions[topic]:
            if offsets.get(group_id, topic, partition) or offsets.is_pending(group_id, topic, partition):
                step.write(tombstone(group_id, topic, partition))
    return in_use


def _check(group: ClassicGroup, who: Committer, *, transactional: bool) -> None:
    if who.generation < 0 and group.is_empty:
        return
    if who.generation >= 0 or who.member_id or who.instance_id is not None:
        group.check_member(who.member_id, who.instance_id)
        if who.generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not transactional and group.state is ClassicState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _check_consumer(
    coordinator: GroupCoordinator,
    group: ConsumerGroup,
    who: Committer,
    commits: Sequence[Commit],
    version: int | None,
) -> Sequence[Commit]:
    """The commits that are fine; `version` None: in a transaction, where errors are those of generations."""
    if who.generation < 0 and group.is_empty:
        return commits
    group.member(who.member_id)
    if version is not None and version < _MEMBER_EPOCHS_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    stale = ErrorCode.ILLEGAL_GENERATION if version is None else ErrorCode.STALE_MEMBER_EPOCH
    try:
        group.check_commit_epoch(who.member_id, who.generation)
    except KafkaError:
        raise KafkaError(stale) from None
    fine = []
    for made in commits:
        topic = coordinator.topics.get(made.topic)
        place = (b"" if topic is None else topic.id, made.partition)
        if group.may_commit(who.member_id, who.generation, place):
            fine.append(made)
        else:
            made.told.error_code = stale
    return fine


def _keep_alive(group: ClassicGroup, who: Committer) -> None:
    """A commit is a sign of life."""
    member = group.members.get(who.member_id)
    if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        rebalance.start_session(group, member)


def _write(
    coordinator: GroupCoordinator,
    group_id: str,
    commits: Sequence[Commit],
    answer: Message,
    later: Later,
    step: Step,
    retention_ms: int,
    producer: Producer | None,
) -> None:
    def tell(step: Step, error: KafkaError | None) -> None:
        if error is not None:
            _fail_all(commits, error.code)
        step.answer(later, answer)

    metadata_max = coordinator.settings.offset_metadata_bytes_max
    step.write(*_records(group_id, commits, step.now_ms, retention_ms, metadata_max))
    step.after_write = tell
    coordinator.runner.finish(group_id, step, producer)


def _records(
    group_id: str, commits: Sequence[Commit], now_ms: int, retention_ms: int, metadata_max: int
) -> list[StateRecord]:
    """What is to be written; a commit whose metadata are too long is told so and left out."""
    records = []
    for made in commits:
        metadata = made.metadata or ""
        if len(metadata) > metadata_max:
            made.told.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        expire_ms = -1 if retention_ms < 0 else min(now_ms + retention_ms, INT64_MAX)
        committed = Committed(made.offset, made.leader_epoch, metadata, now_ms, expire_ms)
        records.append(commit_record(group_id, made.topic, made.partition, committed))
    return records


def _fail_all(commits: Sequence[Commit], code: ErrorCode) -> None:
    for made in commits:
        made.told.error_code = code
