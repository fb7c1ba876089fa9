"""The consumer protocol (KIP-848): one request, the heartbeat, by which members join, own partitions and leave."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

from oncestream.broker.groups import consumer_records as records
from oncestream.broker.groups.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from oncestream.broker.groups.consumer_group import (
    LEAVE_STATIC,
    NONE_ASSIGNED,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    preferred_assignor,
)
from oncestream.broker.groups.draft import Draft
from oncestream.broker.groups.group_configs import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, Configs, value_of
from oncestream.broker.groups.heartbeat_request import Beat
from oncestream.broker.groups.reconcile import reconcile
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey, Timers
from oncestream.broker.groups.topic_regex import matching
from oncestream.broker.settings import BrokerSettings
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.consumer_group_heartbeat import (
    Assignment as ToldAssignment,
)
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

logger = logging.getLogger("oncestream.broker")


class KnownTopic(Protocol):
    """What an assignment needs to know of a topic."""

    @property
    def id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[object]: ...


class ConsumerProtocol:
    """Heartbeats and timeouts of all consumer groups."""

    def __init__(
        self,
        groups: Mapping[str, ConsumerGroup],
        topics: Mapping[str, KnownTopic],
        settings: BrokerSettings,
        timers: Timers,
        configs: Mapping[str, Configs],
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._settings = settings
        self._timers = timers
        self._configs = configs
        self._topics_version = 0
        self._seen_versions: dict[str, int] = {}

    def topics_changed(self) -> None:
        """Every group looks at its topics again, with its next heartbeat."""
        self._topics_version += 1

    def loaded(self) -> None:
        for group in self._groups.values():
            for member in group.members.values():
                self._start_session(group.id, member.id)
                self._watch_revocation(group.id, member)

    # -- heartbeats ---------------------------------------------------------------------------

    def beat(self, group: ConsumerGroup, beat: Beat, step: Step) -> ConsumerGroupHeartbeatResponse:
        """A member joins, or is alive; it is led one step closer to its target."""
        if (
            len(group.members) >= self._settings.group_size_max
            and beat.request.member_id not in group.members
        ):
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The consumer group has reached its maximum capacity of"
                f" {self._settings.group_size_max} members.",
            )
        draft = Draft(group, step)
        before = self._find_member(draft, beat)
        member = beat.updated(before)
        is_new = member.id not in group.members and draft.replaced is None
        draft.update(member, changed=is_new or member != before)
        resubscribed = is_new or (member.topics, member.regex) != (before.topics, before.regex)
        self._refresh(draft, resubscribed, beat)
        if draft.epoch > group.target_epoch:
            self._assign(draft)
        target = draft.target.get(member.id, NONE_ASSIGNED)
        after = reconcile(member, draft.target_epoch, target, group.owners, beat.owned)
        if after != member:
            step.write(records.current_record(group.id, after))
            self._watch_revocation(group.id, after)
        self._start_session(group.id, member.id)
        return ConsumerGroupHeartbeatResponse(
            member_id=after.id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self._config(group.id, HEARTBEAT_INTERVAL),
            assignment=_told(after) if beat.is_full or after.assigned != before.assigned else None,
        )

    def leave(self, group: ConsumerGroup, beat: Beat, step: Step) -> ConsumerGroupHeartbeatResponse:
        """For good, or (a static member) until it comes back within its session timeout."""
        request = beat.request
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        member = group.member(request.member_id) if request.instance_id is None else _static(group, beat)
        if request.member_epoch == LEAVE_STATIC:
            away = replace(member, epoch=LEAVE_STATIC, revoking={})
            step.write(records.current_record(group.id, away))
            self._timers.cancel(TimerKey(group.id, "rebalance", member.id))
        else:
            self._fence(group, member, step)
        return answer

    def _find_member(self, draft: Draft, beat: Beat) -> ConsumerMember:
        request, group = beat.request, draft.group
        if request.instance_id is None:
            if beat.joins:
                member_id = request.member_id or str(uuid.uuid4())
                return group.members.get(member_id) or ConsumerMember(member_id)
            member = group.member(request.member_id)
            beat.check_epoch(member)
            return member
        if not beat.joins:
            member = _static(group, beat)
            beat.check_epoch(member)
            return member
        old = group.static_member(request.instance_id)
        member_id = request.member_id or str(uuid.uuid4())
        if old is None:
            return ConsumerMember(member_id, instance_id=request.instance_id)
        if old.epoch != LEAVE_STATIC and old.id != member_id:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because"
                f" the instance id is owned by {old.id} member.",
            )
        return draft.replace_static(old, member_id)

    # -- assignment ---------------------------------------------------------------------------

    def _refresh(self, draft: Draft, resubscribed: bool, beat: Beat) -> None:
        """A new epoch, if the subscriptions or the topics behind them are others than they were."""
        group_id = draft.group.id
        if not resubscribed and self._seen_versions.get(group_id) == self._topics_version:
            return
        self._seen_versions[group_id] = self._topics_version
        patterns = {member.regex for member in draft.members.values() if member.regex}
        seen = [name for name in self._topics if beat.may_see(name)] if patterns else []
        draft.set_regex_topics({pattern: matching(pattern, seen) for pattern in patterns})
        metadata_hash = self._hash(draft.subscribed_topics())
        if resubscribed or metadata_hash != draft.group.metadata_hash:
            draft.bump_epoch(metadata_hash)

    def _assign(self, draft: Draft) -> None:
        name = preferred_assignor(draft.members.values(), DEFAULT_ASSIGNOR)
        known = {n: self._topics[n] for n in draft.subscribed_topics() if n in self._topics}
        subscribers = [
            Subscriber(
                member.id,
                member.instance_id,
                frozenset(known[n].id for n in draft.topics_of(member) if n in known),
                draft.target.get(member.id, NONE_ASSIGNED),
            )
            for member in draft.members.values()
        ]
        partitions = {topic.id: len(topic.partitions) for _, topic in sorted(known.items())}
        draft.set_target(ASSIGNORS[name](subscribers, partitions))

    def _hash(self, names: Iterable[str]) -> int:
        known = sorted((name, self._topics[name]) for name in names if name in self._topics)
        if not known:
            return 0
        digest = blake2b(digest_size=8)
        for name, topic in known:
            digest.update(f"{name}:{topic.id.hex()}:{len(topic.partitions)};".encode())
        return int.from_bytes(digest.digest(), "big", signed=True)

    # -- timeouts -----------------------------------------------------------------------------

    def _config(self, group_id: str, name: str) -> int:
        return value_of(name, self._configs.get(group_id, {}), self._settings)

    def _start_session(self, group_id: str, member_id: str) -> None:
        self._timers.set(
            TimerKey(group_id, "session", member_id),
            self._config(group_id, SESSION_TIMEOUT),
            lambda step: self._expire(group_id, member_id, None, step),
        )

    def _watch_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """A member that has to give partitions up has its rebalance timeout for it."""
        key = TimerKey(group_id, "rebalance", member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        self._timers.set(
            key,
            member.rebalance_timeout_ms,
            lambda step: self._expire(group_id, member.id, member.epoch, step),
        )

    def _expire(self, group_id: str, member_id: str, epoch: int | None, step: Step) -> None:
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is not None and member is not None and epoch in (None, member.epoch):
            logger.info("member expired group=%s member=%s", group_id, member_id)
            self._fence(group, member, step)

    def _fence(self, group: ConsumerGroup, member: ConsumerMember, step: Step) -> None:
        for purpose in ("session", "rebalance"):
            self._timers.cancel(TimerKey(group.id, purpose, member.id))
        draft = Draft(group, step)
        draft.remove(member.id)
        draft.bump_epoch(self._hash(draft.subscribed_topics()))


def _static(group: ConsumerGroup, beat: Beat) -> ConsumerMember:
    request = beat.request
    assert request.instance_id is not None
    member = group.static_member(request.instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if member.id != request.member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member"
            f" {member.id}.",
        )
    return member


def _told(member: ConsumerMember) -> ToldAssignment:
    return ToldAssignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(member.assigned.items())
        ]
    )
