"""The group coordinator: all groups of the broker, found by their ids, and what is done to them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from oncestream.broker.alarm import Scheduler
from oncestream.broker.clock import Clock
from oncestream.broker.groups import expiry, joining, membership, rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.consumer_group import ConsumerGroup
from oncestream.broker.groups.consumer_protocol import ConsumerProtocol, KnownTopic
from oncestream.broker.groups.consumer_records import group_tombstones
from oncestream.broker.groups.group_configs import Configs
from oncestream.broker.groups.heartbeat_request import Beat
from oncestream.broker.groups.runner import GroupLog, Runner
from oncestream.broker.groups.state import DurableState
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey
from oncestream.broker.later import Later
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.state_log import StateRecord, Transaction
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from oncestream.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncestream.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncestream.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from oncestream.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("oncestream.broker")

EXPIRY_INTERVAL_MS: Final = 600_000
_EXPIRY: Final = TimerKey("", "expiry")


class GroupCoordinator:
    """Groups with members live here; one without is what the log says of it."""

    def __init__(
        self,
        settings: BrokerSettings,
        log: GroupLog,
        topics: Mapping[str, KnownTopic],
        clock: Clock,
        scheduler: Scheduler,
        configs: Mapping[str, Configs],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self.state = DurableState()
        self.runner = Runner(self.state, log, clock, scheduler)
        self.partition_of = log.partition_of
        self._consumers = ConsumerProtocol(self.state.consumer, topics, settings, self.runner.timers, configs)
        self._live: dict[str, ClassicGroup] = {}
        replayed = log.replay(self.state)
        if replayed:
            logger.info("groups loaded records=%d groups=%d", replayed, len(self.group_ids()))
        self.runner.run("", self._loaded)

    def close(self) -> None:
        self.runner.close()

    # -- finding groups -----------------------------------------------------------------------

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        live = self._live.get(group_id) or self.state.consumer.get(group_id)
        if live is not None:
            return live
        stored = self.state.classic.get(group_id)
        if stored is None and not self.state.offsets.knows(group_id):
            return None
        group = ClassicGroup(group_id, self.settings, self.runner.timers, self.runner.now_ms())
        if stored is not None:
            group.restore(stored)
        return group

    def group_ids(self) -> list[str]:
        state = self.state
        known = (self._live, state.classic, state.consumer, state.offsets.group_ids())
        return sorted(set().union(*known))

    def check_offset_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Only members of the consumer protocol say who they are."""
        group = self.state.consumer.get(group_id)
        if group is not None and (member_id is not None or member_epoch >= 0):
            group.check_epoch(member_id or "", member_epoch)

    # -- classic membership -------------------------------------------------------------------

    def join(self, join: joining.Join) -> None:
        request, settings = join.request, self.settings
        low, high = settings.group_session_timeout_ms_min, settings.group_session_timeout_ms_max
        code = ErrorCode.NONE
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
        elif not low <= request.session_timeout_ms <= high:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        else:
            code = self._refusal(request)
        if code is ErrorCode.NONE:
            self.runner.run(request.group_id, lambda step: self._join(join, step))
        else:
            join.later.resolve(JoinGroupResponse(error_code=code, member_id=request.member_id))

    def sync(self, request: SyncGroupRequest, later: Later) -> None:
        group = self._live.get(request.group_id)
        if group is None or group.is_empty:
            later.resolve(SyncGroupResponse(error_code=_no_group(request.group_id)))
        else:
            self.runner.run(group.id, lambda step: membership.sync(group, request, later, step))

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self._live.get(request.group_id)
        if group is None:
            return HeartbeatResponse(error_code=_no_group(request.group_id))
        return HeartbeatResponse(
            error_code=membership.heartbeat(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
        )

    def leave(self, group_id: str, leaving: list[MemberIdentity], later: Later) -> None:
        group = self._live.get(group_id)
        if group is not None:
            self.runner.run(group_id, lambda step: _leave(group, leaving, later, step))
        elif not group_id:
            later.resolve(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        else:
            later.resolve(LeaveGroupResponse(members=[_unknown(identity) for identity in leaving]))

    def _refusal(self, request: JoinGroupRequest) -> ErrorCode:
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id and not isinstance(group, ClassicGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE

    def _join(self, join: joining.Join, step: Step) -> None:
        group_id = join.request.group_id
        group = self.group(group_id)
        if isinstance(group, ConsumerGroup):
            step.write(*group_tombstones(group))  # nobody is in it: it becomes a classic one
        is_new = not isinstance(group, ClassicGroup)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id, self.settings, self.runner.timers, step.now_ms)
        self._live[group_id] = group
        writes = len(step.records)
        joining.join(group, join, step)
        if is_new and len(step.records) == writes:
            step.write(group.record({}))

    # -- consumer membership (KIP-848) --------------------------------------------------------

    def beat(self, beat: Beat, later: Later) -> None:
        step = Step(self.runner.now_ms())
        try:
            beat.check()
            group = self._consumer_group(beat, step)
            if beat.leaves:
                answer = self._consumers.leave(group, beat, step)
            else:
                answer = self._consumers.beat(group, beat, step)
        except KafkaError as error:
            later.resolve(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
            return
        step.answer(later, answer)
        self.runner.finish(beat.request.group_id, step)

    def topics_changed(self) -> None:
        """Topics were made, deleted or got partitions."""
        self._consumers.topics_changed()

    def _consumer_group(self, beat: Beat, step: Step) -> ConsumerGroup:
        group_id = beat.request.group_id
        group = self.group(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and not beat.joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if group is not None:
            if not beat.joins or not group.is_empty:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            self._bury(group, step)  # nobody is in it: it becomes a consumer group
        return ConsumerGroup(group_id)

    # -- the end of groups and offsets --------------------------------------------------------

    def delete(self, group_id: str, step: Step) -> None:
        """Deletes a group without members, with its offsets."""
        group = self.group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        step.write(*self.state.offsets.tombstones(group_id))
        self._bury(group, step)

    def topic_deleted(self, topic: str) -> None:
        """A topic is gone: so are the offsets in it, or a new topic of its name would start from them."""
        self.topics_changed()
        for group_id in self.state.offsets.group_ids():
            records = self.state.offsets.tombstones(group_id, topic)
            if records:
                self.runner.run(group_id, partial(_write, records))

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker was written to this partition of the offsets topic: its pending offsets count, or go."""
        self.state.end_transaction(Transaction(partition, producer_id), commit)

    def expire(self) -> None:
        """Deletes offsets past their time, and groups without members that hold none."""
        for group_id in self.group_ids():
            self.runner.run(group_id, partial(self._expire, group_id))

    def _expire(self, group_id: str, step: Step) -> None:
        group = self.group(group_id)
        if group is None:
            return
        records, all_gone = expiry.expired(
            group, self.state.offsets, self.settings.offsets_retention_ms, step.now_ms
        )
        step.write(*records)
        if all_gone and group.is_empty:
            self._bury(group, step)

    def _bury(self, group: ClassicGroup | ConsumerGroup, step: Step) -> None:
        if isinstance(group, ConsumerGroup):
            step.write(*group_tombstones(group))
            return
        for member_id in group.pending_joins:
            self.runner.timers.cancel(TimerKey(group.id, "session", member_id))
        group.move_to(ClassicState.DEAD, step.now_ms)
        self._live.pop(group.id, None)
        step.write(*group.tombstones())

    # -- start-up -----------------------------------------------------------------------------

    def _loaded(self, step: Step) -> None:
        """Members of the last stable generation have a session's time to be heard of."""
        for group_id, stored in self.state.classic.items():
            if not stored.members:
                continue
            group = self.group(group_id)
            assert isinstance(group, ClassicGroup)
            self._live[group_id] = group
            for member in group.members.values():
                rebalance.start_session(group, member)
            if len(group.members) > self.settings.group_size_max:
                rebalance.prepare(group, step)
        self._consumers.loaded()
        self._expire_later()

    def _expire_later(self) -> None:
        def run(_: Step) -> None:
            self.expire()
            self._expire_later()

        self.runner.timers.set(_EXPIRY, EXPIRY_INTERVAL_MS, run)


def _leave(group: ClassicGroup, leaving: list[MemberIdentity], later: Later, step: Step) -> None:
    step.answer(later, LeaveGroupResponse(members=membership.leave(group, leaving, step)))


def _write(records: Sequence[StateRecord], step: Step) -> None:
    step.write(*records)


def _no_group(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _unknown(identity: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )
