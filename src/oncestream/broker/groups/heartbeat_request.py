"""A ConsumerGroupHeartbeat as it came in: what is wrong with it, and what it says of its member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from oncestream.broker.groups.assignors import ASSIGNORS
from oncestream.broker.groups.consumer_group import LEAVE, LEAVE_STATIC, Assignment, ConsumerMember
from oncestream.broker.groups.topic_regex import check_regex
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_MEMBER_ID_SINCE: Final = 1


class Beat(NamedTuple):
    """A heartbeat with where it came from."""

    request: ConsumerGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    may_see: Callable[[str], bool] = lambda _topic: True  # a regular expression finds only such topics

    @property
    def joins(self) -> bool:
        return self.request.member_epoch == 0

    @property
    def leaves(self) -> bool:
        return self.request.member_epoch in (LEAVE, LEAVE_STATIC)

    @property
    def is_full(self) -> bool:
        """It says everything, so it is to be told everything."""
        request = self.request
        subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return self.joins or (
            request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None
        )

    @property
    def owned(self) -> Assignment | None:
        told = self.request.topic_partitions
        return None if told is None else {topic.topic_id: frozenset(topic.partitions) for topic in told}

    def check(self) -> None:
        request = self.request
        _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
        _refuse_if(request.instance_id == "", "InstanceId can't be empty.")
        _refuse_if(request.rack_id == "", "RackId can't be empty.")
        _refuse_if(request.member_epoch < LEAVE_STATIC, "MemberEpoch is invalid.")
        needs_id = not self.joins or self.version >= _MEMBER_ID_SINCE
        _refuse_if(needs_id and not request.member_id.strip(), "MemberId can't be empty.")
        static_leave = request.member_epoch == LEAVE_STATIC
        _refuse_if(static_leave and request.instance_id is None, "InstanceId can't be null.")
        if self.joins:
            self._check_join()
        if request.subscribed_topic_regex:
            check_regex(request.subscribed_topic_regex)
        if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported."
                f" Supported assignors: {', '.join(ASSIGNORS)}.",
            )

    def _check_join(self) -> None:
        request = self.request
        no_timeout = request.rebalance_timeout_ms == -1
        _refuse_if(no_timeout, "RebalanceTimeoutMs must be provided in first request.")
        _refuse_if(request.topic_partitions != [], "TopicPartitions must be empty when (re-)joining.")
        _refuse_if(
            request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )

    def updated(self, member: ConsumerMember) -> ConsumerMember:
        """The member with what it told anew; what it left out stays."""
        request = self.request
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=member.topics if names is None else frozenset(names),
            regex=member.regex if regex is None else regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        )

    def check_epoch(self, member: ConsumerMember) -> None:
        """Fences a member that is not where it should be.

        The last epoch is fine if it owns nothing but what it has: then our last answer was lost.
        """
        told, known = self.request.member_epoch, member.epoch
        if self.joins or told == known:
            return
        owned = self.owned
        lost_answer = (
            told == member.previous_epoch
            and told < known
            and owned is not None
            and all(parts <= member.assigned.get(topic_id, frozenset()) for topic_id, parts in owned.items())
        )
        if not lost_answer:
            size = "greater" if told > known else "smaller"
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The consumer group member has a {size} member epoch ({told}) than the one known by the group"
                f" coordinator ({known}). The member must abandon all its partitions and rejoin.",
            )


def _refuse_if(wrong: bool, reason: str) -> None:
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
