"""From one generation of a classic group to the next: who must join again, when the wait ends, who is left out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from oncestream.broker.groups.classic_group import ClassicGroup, ClassicState
from oncestream.broker.groups.classic_member import ClassicMember
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import TimerKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.join_group import JoinGroupResponse
from oncestream.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("oncestream.broker")

_CAN_REBALANCE: Final = frozenset(
    {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
)


def rebalance_or_complete(group: ClassicGroup, step: Step) -> None:
    """After a change of members: start a rebalance, or end the one that runs if all have joined."""
    if group.state in _CAN_REBALANCE:
        prepare(group, step)
    else:
        complete_if_all_joined(group, step)


def complete_if_all_joined(group: ClassicGroup, step: Step) -> None:
    preparing = group.state is ClassicState.PREPARING_REBALANCE
    # The first rebalance of a group ends by its timer only: more members may be on their way.
    if preparing and group.previous_state is not ClassicState.EMPTY and group.all_joined:
        complete_join(group, step)


def prepare(group: ClassicGroup, step: Step) -> None:
    """All members are to join again, within the longest of their rebalance timeouts."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        hand_out(group, {}, ErrorCode.REBALANCE_IN_PROGRESS, step)
    group.pending_syncs.clear()
    group.timers.cancel(TimerKey(group.id, "sync"))
    first = group.is_empty
    group.move_to(ClassicState.PREPARING_REBALANCE, step.now_ms)
    if first:
        delay_ms = group.settings.group_initial_rebalance_delay_ms
        _wait_for_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    elif group.all_joined:
        complete_join(group, step)
    else:
        _end_join_after(group, group.rebalance_timeout_ms)


def complete_join(group: ClassicGroup, step: Step) -> None:
    """Whoever has joined is in the next generation; dynamic members that have not are out."""
    group.timers.cancel(TimerKey(group.id, "join"))
    for member in tuple(group.members.values()):
        if member.joining is None and member.instance_id is None:
            group.remove(member.id, step)
    if group.state is ClassicState.DEAD:
        return
    if not group.elect_joined_leader() and group.members:
        # Only static members are left and none is back: wait until one is, or their sessions end.
        _end_join_after(group, group.rebalance_timeout_ms)
        return
    group.next_generation(step.now_ms)
    if group.is_empty:
        step.write(group.record({}))
        return
    for member in group.members.values():
        if member.joining is not None:
            step.answer(member.joining, joined(group, member.id))
            member.joining = None
        start_session(group, member)
        member.is_new = False
        group.pending_syncs.add(member.id)
    generation = group.generation
    group.timers.set(
        TimerKey(group.id, "sync"),
        group.rebalance_timeout_ms,
        lambda step: _expire_sync(group, generation, step),
    )


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """The leader learns who its members are; the others only the generation."""
    leads = member_id == group.leader_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[member.joined(group.protocol) for member in group.members.values()] if leads else [],
    )


def hand_out(group: ClassicGroup, assignments: Mapping[str, bytes], code: ErrorCode, step: Step) -> None:
    """Sets every member's assignment and answers those that wait for it."""
    told = code is ErrorCode.NONE
    for member in group.members.values():
        member.assignment = assignments.get(member.id, b"")
        if member.syncing is None:
            continue
        answer = SyncGroupResponse(
            error_code=code,
            protocol_type=group.protocol_type if told else None,
            protocol_name=group.protocol if told else None,
            assignment=member.assignment,
        )
        step.answer(member.syncing, answer)
        member.syncing = None
        start_session(group, member)


def start_session(group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
    """The member must be heard of again before its session timeout."""
    member_id = member.id
    group.timers.set(
        TimerKey(group.id, "session", member_id),
        member.session_timeout_ms if timeout_ms is None else timeout_ms,
        lambda step: expire_session(group, member_id, step),
    )


def expire_session(group: ClassicGroup, member_id: str, step: Step) -> None:
    if group.state is ClassicState.DEAD:
        return
    member = group.members.get(member_id)
    if member is not None and member.waits and not member.is_new:
        return  # it waits for our answer; its session starts anew with that
    if member is not None:
        logger.info("member expired group=%s member=%s", group.id, member_id)
    group.remove(member_id, step)
    if group.state is ClassicState.PREPARING_REBALANCE:
        if group.all_joined:
            complete_join(group, step)
    elif member is not None:
        rebalance_or_complete(group, step)


def _expire_sync(group: ClassicGroup, generation: int, step: Step) -> None:
    """Members that joined and then never asked for their assignment are out."""
    active = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if not active or generation != group.generation or not group.pending_syncs:
        return
    for member_id in tuple(group.pending_syncs):
        group.remove(member_id, step)
    prepare(group, step)


def _wait_for_first_members(group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
    group.timers.set(
        TimerKey(group.id, "join"),
        delay_ms,
        lambda step: _end_first_wait(group, delay_ms, left_ms, step),
    )


def _end_first_wait(group: ClassicGroup, delay_ms: int, left_ms: int, step: Step) -> None:
    if group.new_member_came and left_ms:
        group.new_member_came = False
        longer_ms = min(group.settings.group_initial_rebalance_delay_ms, left_ms)
        _wait_for_first_members(group, longer_ms, max(left_ms - delay_ms, 0))
    else:
        complete_join(group, step)


def _end_join_after(group: ClassicGroup, timeout_ms: int) -> None:
    key = TimerKey(group.id, "join")
    # At least one: it may have to be waited for again and again.
    group.timers.set(key, max(timeout_ms, 1), lambda step: complete_join(group, step))
