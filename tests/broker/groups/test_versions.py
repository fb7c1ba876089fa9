"""Every version of the group APIs, on our broker and on Apache Kafka: the same requests, the same answers."""

from __future__ import annotations

import pytest

from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncestream.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncestream.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncestream.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncestream.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from oncestream.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from oncestream.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from oncestream.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.groups.kit import SUBSCRIBED_TO_T
from tests.broker.kit import Wire, create_topic, new_name, wait_until


@pytest.fixture
def group(wire: Wire) -> str:
    """A group id never used, whose coordinator is ready."""
    name = new_name()
    find_coordinator(wire, name, 3)  # makes the offsets topic
    probe = HeartbeatRequest(group_id=name, member_id="nobody")
    ready = ErrorCode.UNKNOWN_MEMBER_ID
    wait_until(lambda: wire.ask(probe, 4, HeartbeatResponse).error_code == ready)
    wait_until(lambda: find_coordinator(wire, name, 3).error_code == ErrorCode.NONE)
    return name


def find_coordinator(wire: Wire, key: str, version: int) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key=key, coordinator_keys=[key])
    return wire.ask(request, version, FindCoordinatorResponse)


def join(wire: Wire, group: str, version: int, member_id: str = "") -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIBED_TO_T)],
    )
    return wire.ask(request, version, JoinGroupResponse)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(wire: Wire, group: str, version: int) -> None:
    answer = find_coordinator(wire, group, version)
    found = answer if version < 4 else answer.coordinators[0]
    assert found.error_code == ErrorCode.NONE
    assert (found.host, found.port) == wire.sock.getpeername()


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_gets_its_assignment_and_leaves(wire: Wire, group: str, version: int) -> None:
    joined = join(wire, group, version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = join(wire, group, version, joined.member_id)
    member = joined.member_id
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, member)
    assert (joined.protocol_name, [m.metadata for m in joined.members]) == ("range", [SUBSCRIBED_TO_T])

    sync = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"all of it")],
    )
    synced = wire.ask(sync, min(version, 5), SyncGroupResponse)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all of it")
    if version >= 5:
        sync.protocol_name = None
        silent = wire.ask(sync, 5, SyncGroupResponse)
        assert silent.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
    assert wire.ask(beat, min(version, 4), HeartbeatResponse).error_code == ErrorCode.NONE
    stale = HeartbeatRequest(group_id=group, generation_id=0, member_id=member)
    assert wire.ask(stale, min(version, 4), HeartbeatResponse).error_code == ErrorCode.ILLEGAL_GENERATION

    leave = LeaveGroupRequest(group_id=group, member_id=member, members=[MemberIdentity(member_id=member)])
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        left = wire.ask(leave, min(version, 5), LeaveGroupResponse)
        told = left.members[0].error_code if min(version, 5) >= 3 else left.error_code
        assert told == expected


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_and_read(wire: Wire, group: str, version: int) -> None:
    topic = create_topic(wire)
    assert topic.name is not None
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="note")
        for index in (0, 9)
    ]
    named = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
    unknown = OffsetCommitRequestTopic(name="no-such-topic", topic_id=b"x" * 16, partitions=partitions[:1])
    request = OffsetCommitRequest(group_id=group, topics=[named, unknown])
    answer = wire.ask(request, version, OffsetCommitResponse)
    codes = {
        (told.name or told.topic_id, p.partition_index): p.error_code
        for told in answer.topics
        for p in told.partitions
    }
    key = topic.name if version < 10 else topic.topic_id
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (codes[key, 0], codes[key, 9]) == (ErrorCode.NONE, missing)
    stranger = ("no-such-topic", missing) if version < 10 else (b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    assert codes[stranger[0], 0] == stranger[1]
    assert read(wire, group, topic.name, topic.topic_id, version) == [(7, "note", ErrorCode.NONE)]


@pytest.mark.parametrize("version", range(1, 11))
def test_a_group_nobody_knows_has_no_offsets_and_no_error(wire: Wire, group: str, version: int) -> None:
    topic = create_topic(wire)
    assert topic.name is not None
    assert read(wire, group, topic.name, topic.topic_id, version) == [(-1, "", ErrorCode.NONE)]


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_nobody_knows_are_none(wire: Wire, group: str, version: int) -> None:
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    answer = wire.ask(request, version, OffsetFetchResponse)
    found = answer if version < 8 else answer.groups[0]
    assert (found.error_code, found.topics) == (ErrorCode.NONE, [])


def read(
    wire: Wire, group: str, name: str, topic_id: bytes, version: int
) -> list[tuple[int, str | None, int]]:
    wanted = OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=name, partition_indexes=[0])],
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])],
    )
    answer = wire.ask(request, version, OffsetFetchResponse)
    if version < 8:
        told = [(p.committed_offset, p.metadata, p.error_code) for t in answer.topics for p in t.partitions]
    else:
        told = [
            (p.committed_offset, p.metadata, p.error_code)
            for t in answer.groups[0].topics
            for p in t.partitions
        ]
    return told


@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_dead_and_version_6_says_so(wire: Wire, group: str, version: int) -> None:
    answer = wire.ask(DescribeGroupsRequest(groups=[group]), version, DescribeGroupsResponse).groups[0]
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    message = f"Group {group} not found." if version >= 6 else None
    assert (answer.group_state, answer.error_code, answer.error_message) == ("Dead", code, message)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_by_state_and_type(wire: Wire, group: str, version: int) -> None:
    joined = join(wire, group, 3)

    def listed(states: list[str], types: list[str]) -> list[tuple[str, str, str]]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = wire.ask(request, version, ListGroupsResponse)
        return [(g.protocol_type, g.group_state, g.group_type) for g in answer.groups if g.group_id == group]

    state = "CompletingRebalance" if version >= 4 else ""
    kind = "classic" if version >= 5 else ""
    assert listed([], []) == [("consumer", state, kind)]
    if version >= 4:
        assert listed(["completingrebalance"], []) == [("consumer", state, kind)]
        assert listed(["Stable"], []) == []
    if version >= 5:
        assert listed([], ["CLASSIC"]) == [("consumer", state, kind)]
        assert listed([], ["consumer"]) == []
    wire.ask(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 2, LeaveGroupResponse)


@pytest.mark.parametrize("version", range(3))
def test_only_groups_without_members_are_deleted(wire: Wire, group: str, version: int) -> None:
    def delete() -> int:
        request = DeleteGroupsRequest(groups_names=[group])
        return wire.ask(request, version, DeleteGroupsResponse).results[0].error_code

    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    joined = join(wire, group, 3)
    assert delete() == ErrorCode.NON_EMPTY_GROUP
    wire.ask(LeaveGroupRequest(group_id=group, member_id=joined.member_id), 2, LeaveGroupResponse)
    assert delete() == ErrorCode.NONE
