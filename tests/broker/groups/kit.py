"""A group coordinator on a log in memory and a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oncestream.broker.groups import commits
from oncestream.broker.groups.commits import Commit, Committer
from oncestream.broker.groups.coordinator import GroupCoordinator
from oncestream.broker.groups.heartbeat_request import Beat
from oncestream.broker.groups.joining import Join
from oncestream.broker.groups.state import DurableState
from oncestream.broker.groups.step import Step
from oncestream.broker.later import Later
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.state_log import Producer
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from oncestream.wire.messages.heartbeat import HeartbeatRequest
from oncestream.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncestream.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity
from oncestream.wire.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition
from oncestream.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.groups.stand_ins import HandClock, MemoryLog, NoAlarm

SUBSCRIBED_TO_T = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"  # version 0, topic t, no user data


@dataclass
class FakeTopic:
    id: bytes
    partitions: list[int]


@dataclass
class World:
    """One coordinator with everything around it."""

    settings: BrokerSettings = field(
        default_factory=lambda: BrokerSettings(data=Path("unused"), group_initial_rebalance_delay_ms=0)
    )
    clock: HandClock = field(default_factory=HandClock)
    log: MemoryLog = field(default_factory=MemoryLog)
    topics: dict[str, FakeTopic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)  # of groups

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.groups = GroupCoordinator(
            self.settings, self.log, self.topics, self.clock, NoAlarm(), self.configs
        )

    def check_replay(self) -> None:
        """What the log says is what the coordinator has."""
        replayed = DurableState()
        self.log.replay(replayed)
        assert replayed == self.groups.state

    def advance(self, ms: int) -> None:
        self.clock.ms += ms
        self.groups.runner.tick()
        self.check_replay()

    def make_topic(self, name: str, partitions: int) -> None:
        self.topics[name] = FakeTopic(name.encode().ljust(16, b"."), list(range(partitions)))
        self.groups.topics_changed()

    # -- the classic protocol -----------------------------------------------------------------

    def send_join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        group: str = "g",
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
    ) -> Waiting:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in ({"range": SUBSCRIBED_TO_T} if protocols is None else protocols).items()
            ],
        )
        later = Later()
        self.groups.join(Join(request, version, "client", "/127.0.0.1", later))
        self.groups.runner.tick()
        self.check_replay()
        return Waiting(later)

    def new_member(self, **options: Any) -> Waiting:
        """Joins as clients do: first for an id, then with it."""
        refused = self.send_join(**options).join
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return self.send_join(refused.member_id, **options)

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        group: str = "g",
    ) -> Waiting:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=given, assignment=assignment)
                for given, assignment in (assignments or {}).items()
            ],
        )
        later = Later()
        self.groups.sync(request, later)
        self.check_replay()
        return Waiting(later)

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.groups.heartbeat(request).error_code)

    def leave(self, member_id: str, instance: str | None = None, group: str = "g") -> ErrorCode:
        later = Later()
        self.groups.leave(group, [MemberIdentity(member_id=member_id, group_instance_id=instance)], later)
        self.check_replay()
        return ErrorCode(Waiting(later).leave.members[0].error_code)

    def stable_group(self, *members: str | None) -> list[str]:
        """A stable group with these members: an instance id each, None for a dynamic one. The first one leads."""
        ids: list[str] = []
        for instance in members:
            if instance is None:
                self.new_member()
            else:
                self.send_join(instance=instance)
            for member in ids:
                self.send_join(member, instance=self.instance(member))
            leader = self.group().leader_id
            ids = [leader, *(member for member in self.group().members if member != leader)]
        generation = self.group().generation
        syncs = [self.send_sync(member, generation, instance=self.instance(member)) for member in ids[1:]]
        assignments = {member: b"assigned to " + str(i).encode() for i, member in enumerate(ids)}
        syncs.append(self.send_sync(ids[0], generation, assignments, instance=self.instance(ids[0])))
        assert all(sync.sync.error_code == ErrorCode.NONE for sync in syncs)
        assert self.group().state == "Stable"
        return ids

    def instance(self, member_id: str) -> str | None:
        return cast("str | None", self.group().members[member_id].instance_id)

    def group(self, group_id: str = "g") -> Any:
        return self.groups.group(group_id)

    # -- the consumer protocol ----------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        owned: dict[str, list[int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        group: str = "g",
        rebalance_ms: int = 60_000,
    ) -> ConsumerGroupHeartbeatResponse:
        joining = epoch == 0
        partitions = (
            None
            if owned is None
            else [
                RequestTopicPartitions(topic_id=self.topics[name].id, partitions=indexes)
                for name, indexes in owned.items()
            ]
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms if joining else -1,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=[] if joining and owned is None else partitions,
        )
        later = Later()
        self.groups.beat(Beat(request, 1, "client", "/127.0.0.1"), later)
        self.check_replay()
        return cast("ConsumerGroupHeartbeatResponse", Waiting(later).answer)

    # -- offsets ------------------------------------------------------------------------------

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
        group: str = "g",
        version: int = 9,
        retention_ms: int = -1,
        producer: Producer | None = None,
    ) -> ErrorCode:
        told = OffsetCommitResponsePartition(partition_index=partition)
        made = [Commit(topic, partition, offset, -1, metadata, told)]
        who = Committer(group, member_id, instance, generation)
        later = Later()
        if producer is None:
            commits.commit(
                self.groups,
                who,
                made,
                OffsetCommitResponse(),
                later,
                version=version,
                retention_ms=retention_ms,
            )
        else:
            commits.commit_in_transaction(self.groups, producer, who, made, OffsetCommitResponse(), later)
        assert later.resolved
        self.check_replay()
        return ErrorCode(told.error_code)

    def committed(self, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
        found = self.groups.state.offsets.get(group, topic, partition)
        return None if found is None else found.offset

    def end_transaction(self, producer: Producer, commit: bool, group: str = "g") -> None:
        index = self.log.partition_of(group)
        self.log.append_marker(index, producer.id, commit)
        self.groups.end_transaction(index, producer.id, commit)
        self.check_replay()

    def delete(self, group_id: str = "g") -> ErrorCode:
        step = Step(self.clock.ms)
        try:
            self.groups.delete(group_id, step)
        except KafkaError as error:
            return error.code
        self.groups.runner.finish(group_id, step)
        self.check_replay()
        return ErrorCode.NONE


class Waiting:
    """An answer that may have come."""

    def __init__(self, later: Later) -> None:
        self.later = later
        self._answers: list[Any] = []
        later.then(self._answers.append)

    @property
    def waits(self) -> bool:
        return not self.later.resolved

    @property
    def answer(self) -> Any:
        assert self.later.resolved, "no answer yet"
        return self._answers[0]

    @property
    def join(self) -> JoinGroupResponse:
        assert isinstance(self.answer, JoinGroupResponse)
        return self.answer

    @property
    def sync(self) -> SyncGroupResponse:
        assert isinstance(self.answer, SyncGroupResponse)
        return self.answer

    @property
    def leave(self) -> LeaveGroupResponse:
        assert isinstance(self.answer, LeaveGroupResponse)
        return self.answer
