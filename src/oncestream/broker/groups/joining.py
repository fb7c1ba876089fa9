"""JoinGroup of the classic protocol: new members, members that come back, static members that were replaced."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from oncestream.broker.groups import rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.classic_member import ClassicMember
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey
from oncestream.broker.later import Later
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9


class Join(NamedTuple):
    """A JoinGroup request with where it came from and where its answer goes."""

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    later: Later

    @property
    def protocols(self) -> dict[str, bytes]:
        return {protocol.name: protocol.metadata for protocol in self.request.protocols}

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has none of its own."""
        timeout = self.request.rebalance_timeout_ms
        return timeout if self.version > 0 else self.request.session_timeout_ms


def join(group: ClassicGroup, join: Join, step: Step) -> None:
    request = join.request
    if not _has_room(group, request.member_id):
        group.remove(request.member_id, step)
        _refuse(join, ErrorCode.GROUP_MAX_SIZE_REACHED, step, member_id="")
    elif not group.supports(request.protocol_type, join.protocols):
        _refuse(join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, step)
    elif request.member_id == "":
        _join_new(group, join, step)
    elif request.member_id in group.pending_joins:
        if request.group_instance_id is None:
            _add(group, join, request.member_id, step)
        else:
            _refuse(join, ErrorCode.UNKNOWN_SERVER_ERROR, step)
    else:
        _rejoin(group, join, step)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    room = group.settings.group_size_max
    member = group.members.get(member_id)
    match group.state:
        case ClassicState.PREPARING_REBALANCE:
            waits = member is not None and member.joining is not None
            return waits or group.awaiting_join < room
        case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
            return member is not None or len(group.members) < room
        case _:
            return True


def _refuse(join: Join, code: ErrorCode, step: Step, member_id: str | None = None) -> None:
    told = join.request.member_id if member_id is None else member_id
    step.answer(join.later, JoinGroupResponse(error_code=code, member_id=told))


def _join_new(group: ClassicGroup, join: Join, step: Step) -> None:
    request = join.request
    new_id = group.new_member_id(join.client_id, request.group_instance_id)
    if request.group_instance_id is not None:
        old_id = group.static_ids.get(request.group_instance_id)
        if old_id is None:
            _add(group, join, new_id, step)
        else:
            _replace_static(group, join, old_id, new_id, step)
    elif join.version >= _MEMBER_ID_REQUIRED_SINCE:
        group.pending_joins.add(new_id)
        group.timers.set(
            TimerKey(group.id, "session", new_id),
            request.session_timeout_ms,
            lambda step: rebalance.expire_session(group, new_id, step),
        )
        _refuse(join, ErrorCode.MEMBER_ID_REQUIRED, step, member_id=new_id)
        step.after_write = partial(_take_back, group, new_id)
    else:
        _add(group, join, new_id, step)


def _take_back(group: ClassicGroup, member_id: str, step: Step, error: KafkaError | None) -> None:
    """The new group could not be written, so nobody was given this id: nobody must wait for its owner."""
    if error is not None:
        rebalance.expire_session(group, member_id, step)


def _add(group: ClassicGroup, join: Join, member_id: str, step: Step) -> None:
    request = join.request
    member = ClassicMember(
        id=member_id,
        instance_id=request.group_instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=join.protocols,
        joining=join.later,
        is_new=True,
    )
    if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
        group.new_member_came = True
    group.add(member, request.protocol_type)
    # It does not know its id yet, so no heartbeat can come; but it must not wait forever either.
    rebalance.start_session(group, member, NEW_MEMBER_TIMEOUT_MS)
    rebalance.rebalance_or_complete(group, step)


def _rejoin(group: ClassicGroup, join: Join, step: Step) -> None:
    member_id = join.request.member_id
    try:
        group.check_member(member_id, join.request.group_instance_id)
    except KafkaError as error:
        _refuse(join, error.code, step)
        return
    member = group.members[member_id]
    unchanged = member.speaks(join.protocols)
    leads = group.leader_id == member_id
    state = group.state
    assert state not in (ClassicState.EMPTY, ClassicState.DEAD)
    # Unchanged, so the last answer may have been lost: told again. But a leader that joins a stable group again wants
    # a rebalance, for changes that only it sees, such as new partitions.
    if unchanged and (
        state is ClassicState.COMPLETING_REBALANCE or (state is ClassicState.STABLE and not leads)
    ):
        step.answer(join.later, rebalance.joined(group, member_id))
        return
    _update(group, member, join, step)
    rebalance.rebalance_or_complete(group, step)


def _update(group: ClassicGroup, member: ClassicMember, join: Join, step: Step) -> None:
    group.update(member, join.protocols)
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    if member.joining is not None:
        step.answer(
            member.joining, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id)
        )
    member.joining = join.later


def _replace_static(group: ClassicGroup, join: Join, old_id: str, new_id: str, step: Step) -> None:
    """A static member came back as a new process. In a stable group that costs no rebalance."""
    old_leader = group.leader_id
    member = group.replace_static(old_id, new_id, step)
    rebalance.start_session(group, member)
    _update(group, member, join, step)
    if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol:
        assignments = {m.id: m.assignment for m in group.members.values()}
        version = join.version
        step.write_then(
            group.record(assignments),
            lambda step, error: _tell_replaced(group, member, version, old_leader, error, step),
        )
    elif group.state is ClassicState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(group, step)
    else:
        # The leader may be assigning to the old member id at this moment.
        rebalance.prepare(group, step)


def _tell_replaced(
    group: ClassicGroup,
    member: ClassicMember,
    version: int,
    old_leader: str | None,
    error: KafkaError | None,
    step: Step,
) -> None:
    if member.joining is None:
        return
    leads = group.leader_id == member.id
    if error is not None:
        answer = JoinGroupResponse(error_code=error.code)
    elif version >= _SKIP_ASSIGNMENT_SINCE:
        answer = rebalance.joined(group, member.id, skip_assignment=leads)
    else:
        # Told that another one leads, it does not assign anew.
        answer = rebalance.joined(group, member.id)
        answer.leader, answer.members = old_leader or "", []
    step.answer(member.joining, answer)
    member.joining = None
