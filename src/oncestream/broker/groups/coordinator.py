"""The group coordinator: finds the group, runs the step, writes its records, answers when they are durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from oncestream.broker.clock import Clock
from oncestream.broker.groups import commits, expiry, joining, membership, rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState, group_tombstone
from oncestream.broker.groups.commits import Commit, Committer
from oncestream.broker.groups.state import DurableState
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey, Timers
from oncestream.broker.later import Later
from oncestream.broker.partition import SyncCallback
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.state_log import Producer, Replayer, StateRecord, Transaction
from oncestream.storage.log import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncestream.wire.messages.join_group import JoinGroupResponse
from oncestream.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from oncestream.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncestream.wire.schema import Message

logger = logging.getLogger("oncestream.broker")

OFFSETS_TOPIC: Final = "__consumer_offsets"
_EXPIRY_INTERVAL_MS: Final = 600_000
_RECORDS_PER_BATCH_MAX: Final = 2_000


class GroupLog(Protocol):
    """The part of a StateLog that groups need."""

    def partition_of(self, name: str) -> int: ...
    def append(
        self, index: int, records: Sequence[StateRecord], now_ms: int, producer: Producer | None = None
    ) -> Appended: ...
    def when_durable(self, index: int, callback: SyncCallback) -> None: ...
    def replay(self, replayer: Replayer) -> int: ...


class Scheduler(Protocol):
    """The part of an event loop that timers need."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle: ...


class GroupCoordinator:
    """All groups of the broker."""

    def __init__(self, settings: BrokerSettings, log: GroupLog, clock: Clock, scheduler: Scheduler) -> None:
        self.state = DurableState()
        self._settings = settings
        self._log = log
        self._clock = clock
        self._scheduler = scheduler
        self._timers = Timers()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._live: dict[str, ClassicGroup] = {}  # those with members, or with members on their way
        self._load()

    # -- membership ---------------------------------------------------------------------------

    def join(self, join: joining.Join) -> None:
        request = join.request
        low, high = self._settings.group_session_timeout_ms_min, self._settings.group_session_timeout_ms_max
        code = ErrorCode.NONE
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
        elif not low <= request.session_timeout_ms <= high:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif request.member_id and self.group(request.group_id) is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            join.later.resolve(JoinGroupResponse(error_code=code, member_id=request.member_id))
            return
        self._run(request.group_id, lambda step: self._join(join, step))

    def _join(self, join: joining.Join, step: Step) -> None:
        group_id = join.request.group_id
        group = self.group(group_id)
        is_new = group is None
        if group is None:
            group = ClassicGroup(group_id, self._settings, self._timers, step.now_ms)
        self._live[group_id] = group
        joining.join(group, join, step)
        if is_new and not step.records:
            step.write(group.record({}))

    def sync(self, request: SyncGroupRequest, later: Later) -> None:
        group = self._live.get(request.group_id)
        if group is None or group.is_empty:
            code = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
            later.resolve(SyncGroupResponse(error_code=code))
            return
        self._run(group.id, lambda step: membership.sync(group, request, later, step))

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self._live.get(request.group_id)
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
            return HeartbeatResponse(error_code=code)
        step = Step(self._clock.now_ms())
        code = membership.heartbeat(
            group, request.member_id, request.group_instance_id, request.generation_id, step
        )
        return HeartbeatResponse(error_code=code)

    def leave(self, group_id: str, leaving: list[MemberIdentity], later: Later) -> None:
        group = self._live.get(group_id)
        if not group_id:
            later.resolve(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        elif group is None:
            unknown = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for identity in leaving
            ]
            later.resolve(LeaveGroupResponse(members=unknown))
        else:
            self._run(group_id, lambda step: self._leave(group, leaving, later, step))

    def _leave(self, group: ClassicGroup, leaving: list[MemberIdentity], later: Later, step: Step) -> None:
        step.answer(later, LeaveGroupResponse(members=membership.leave(group, leaving, step)))

    # -- offsets ------------------------------------------------------------------------------

    def commit(
        self,
        who: Committer,
        made: Sequence[Commit],
        later: Later,
        answer: Message,
        *,
        version: int,
        retention_ms: int = -1,
    ) -> None:
        """Writes the offsets; every commit's outcome is in `answer` when it goes out."""
        step = Step(self._clock.now_ms())
        try:
            group = self._committing_group(who, ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else None)
            if group is not None:
                commits.check_committer(group, who, transactional=False)
                commits.keep_alive(group, who, step)
        except KafkaError as error:
            commits.fail_all(made, error.code)
            later.resolve(answer)
            return
        self._write_commits(who.group_id, made, later, answer, step, retention_ms, None)

    def commit_in_transaction(
        self, producer: Producer, who: Committer, made: Sequence[Commit], later: Later, answer: Message
    ) -> None:
        """TxnOffsetCommit: pending until the marker of the producer's transaction comes."""
        step = Step(self._clock.now_ms())
        try:
            if not who.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            group = self._committing_group(who, None)
            if group is not None:
                commits.check_committer(group, who, transactional=True)
        except KafkaError as error:
            commits.fail_all(made, error.code)
            later.resolve(answer)
            return
        self._write_commits(who.group_id, made, later, answer, step, -1, producer)

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker was written to this partition of the offsets topic: its pending offsets count, or go."""
        self.state.end_transaction(Transaction(partition, producer_id), commit)

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that a group's records are in."""
        return self._log.partition_of(group_id)

    def when_durable(self, group_id: str, callback: SyncCallback) -> None:
        """Calls back when everything this group did so far is durable: nothing is told that a crash undoes."""
        self._log.when_durable(self._log.partition_of(group_id), callback)

    def _committing_group(self, who: Committer, code_if_unknown: ErrorCode | None) -> ClassicGroup | None:
        group = self.group(who.group_id)
        if group is None and who.generation >= 0:
            raise KafkaError(code_if_unknown or ErrorCode.ILLEGAL_GENERATION)
        return group

    def _write_commits(
        self,
        group_id: str,
        made: Sequence[Commit],
        later: Later,
        answer: Message,
        step: Step,
        retention_ms: int,
        producer: Producer | None,
    ) -> None:
        def told(step: Step, error: KafkaError | None) -> None:
            if error is not None:
                commits.fail_all(made, _told_code(error))
            step.answer(later, answer)

        step.records = commits.commit_records(
            group_id, made, step.now_ms, retention_ms, self._settings.offset_metadata_bytes_max
        )
        step.after_write = told
        self._finish(group_id, step, producer)

    # -- administration -----------------------------------------------------------------------

    def group(self, group_id: str) -> ClassicGroup | None:
        """A group with members, or what the log says of one without."""
        group = self._live.get(group_id)
        if group is not None:
            return group
        stored = self.state.classic.get(group_id)
        if stored is None and not self.state.offsets.knows(group_id):
            return None
        group = ClassicGroup(group_id, self._settings, self._timers, self._clock.now_ms())
        if stored is not None:
            group.restore(stored)
        return group

    def group_ids(self) -> list[str]:
        return sorted(self._live.keys() | self.state.classic.keys() | self.state.offsets.group_ids())

    def delete_offsets(self, group_id: str, topics: dict[str, list[int]]) -> tuple[Step, set[str]]:
        ...
