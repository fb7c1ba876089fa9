"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol."""

from __future__ import annotations

from collections.abc import Mapping

from oncestream.broker.groups import rebalance
from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey
from oncestream.broker.later import Later
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.leave_group import MemberIdentity, MemberResponse
from oncestream.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(group: ClassicGroup, request: SyncGroupRequest, later: Later, step: Step) -> None:
    """The leader hands in the assignment, the others wait for theirs."""
    try:
        _check_sync(group, request)
    except KafkaError as error:
        step.answer(later, SyncGroupResponse(error_code=error.code))
        return
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.id)
    if not group.pending_syncs:
        group.timers.cancel(TimerKey(group.id, "sync"))
    if group.state is ClassicState.STABLE:
        answer = SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )
        step.answer(later, answer)
        return
    if member.syncing is not None:
        step.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = later
    if group.leader_id == member.id:
        assignments = {given.member_id: given.assignment for given in request.assignments}
        generation = group.generation
        step.write_then(
            group.record(assignments),
            lambda step, error: _assigned(group, generation, assignments, error, step),
        )


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for told, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        if told is not None and known is not None and told != known:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _assigned(
    group: ClassicGroup,
    generation: int,
    assignments: Mapping[str, bytes],
    error: KafkaError | None,
    step: Step,
) -> None:
    """The assignment is in the log, or could not be written; the group may have moved on meanwhile."""
    if group.state is not ClassicState.COMPLETING_REBALANCE or generation != group.generation:
        return
    if error is not None:
        rebalance.hand_out(group, {}, error.code, step)
        rebalance.rebalance_or_complete(group, step)
    else:
        rebalance.hand_out(group, assignments, ErrorCode.NONE, step)
        group.move_to(ClassicState.STABLE, step.now_ms)


def heartbeat(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    try:
        group.check_member(member_id, instance_id)
    except KafkaError as error:
        return error.code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    rebalance.start_session(group, group.members[member_id])
    preparing = group.state is ClassicState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE


def leave(group: ClassicGroup, leaving: list[MemberIdentity], step: Step) -> list[MemberResponse]:
    answers = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=_leave_one(group, identity, step),
        )
        for identity in leaving
    ]
    if any(answer.error_code == ErrorCode.NONE for answer in answers):
        if group.state is ClassicState.PREPARING_REBALANCE:
            rebalance.complete_if_all_joined(group, step)
        elif not group.is_empty:
            rebalance.rebalance_or_complete(group, step)
    return answers


def _leave_one(group: ClassicGroup, identity: MemberIdentity, step: Step) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id == "" and instance_id is not None and instance_id in group.static_ids:
        member_id = group.static_ids[instance_id]  # an administrator removes a static member
    elif member_id not in group.pending_joins:
        try:
            group.check_member(member_id, instance_id)
        except KafkaError as error:
            return error.code
    group.remove(member_id, step)
    return ErrorCode.NONE
