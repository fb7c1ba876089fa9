"""Nobody does what no ACL allows: every API, as a user without rights, and as users with one right each.

Apache Kafka with its own authorizer is the oracle: the same requests under the same rules are refused by both.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import pytest

from oncestream.broker.apis import APIS
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import encode
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from oncestream.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from oncestream.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncestream.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncestream.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.broker.kit import Wire, create_topic, new_name, wait_until
from tests.broker.security.every_api import CASES, REFUSALS, Case, Names, codes_in, operations_in
from tests.broker.security.rights import (
    ADMIN,
    CLUSTER,
    NOBODY,
    PATIENCE_S,
    RIGHTS,
    USERS,
    Right,
    allow,
    logged_in,
)

LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)  # a second one starts a new log-in there
BY_ID: Final = ("produce by id", "fetch by id", "metadata by id", "delete topics by id")


def test_every_api_has_a_case() -> None:
    assert {case.api for case in CASES} == set(APIS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_somebody_without_rights_is_refused(case: Case, embedded_address: str) -> None:
    with logged_in(embedded_address, ADMIN) as admin, logged_in(embedded_address, NOBODY) as wire:
        names = _make_things(admin, new_name())
        outcome = _outcome(wire, case, names)
        assert outcome.refusals == ({case.refused} if case.refused else set())
        assert outcome.operations <= {0}


@pytest.mark.parametrize("case", [c for c in CASES if c.label not in BY_ID], ids=lambda case: case.label)
def test_a_refusal_does_not_tell_whether_the_thing_exists(case: Case, embedded_address: str) -> None:
    with logged_in(embedded_address, ADMIN) as admin, logged_in(embedded_address, NOBODY) as wire:
        there = _make_things(admin, new_name())
        absent = there._replace(
            topic="t" * len(there.topic),
            group="g" * len(there.group),
            transactional_id="i" * len(there.transactional_id),
        )
        answers = [
            encode(wire.ask(case.request(names), case.version, case.answer), case.version)
            .replace(names.topic.encode(), b"<topic>")
            .replace(names.group.encode(), b"<group>")
            .replace(names.transactional_id.encode(), b"<id>")
            for names in (there, absent)
        ]
        assert answers[0] == answers[1]


def test_lists_hold_only_what_one_may_see(embedded_address: str) -> None:
    with logged_in(embedded_address, ADMIN) as admin:
        names = _make_things(admin, "listed")
        allow(admin, NOBODY + "-else", ResourceType.TOPIC, names.topic, Operation.READ)
        begin = InitProducerIdRequest(transactional_id=names.transactional_id, transaction_timeout_ms=1_000)
        assert admin.ask(begin, 4, InitProducerIdResponse).error_code == 0
        assert _listed(admin, names) == (True, True, True)
    with logged_in(embedded_address, NOBODY) as wire:
        everything = wire.ask(MetadataRequest(topics=None), 12, MetadataResponse)
        assert everything.topics == []
        pages = DescribeTopicPartitionsRequest(topics=[])
        assert wire.ask(pages, 0, DescribeTopicPartitionsResponse).topics == []
        assert wire.ask(ListGroupsRequest(), 4, ListGroupsResponse).groups == []
        assert wire.ask(ListTransactionsRequest(), 0, ListTransactionsResponse).transaction_states == []


@pytest.mark.java
@pytest.mark.slow
def test_the_same_requests_are_refused_as_by_apache_kafka(embedded_address: str, apache_address: str) -> None:
    ours, theirs = _matrix(embedded_address), _matrix(apache_address)
    differing = {key: (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]}
    assert differing == {}
    assert Counter(bool(outcome.refusals) for outcome in ours.values())[False] > len(RIGHTS)


class Outcome(NamedTuple):
    """What a request was refused with, and which operations it was told to be allowed."""

    refusals: frozenset[ErrorCode]
    operations: frozenset[int]


def _matrix(address: str) -> dict[tuple[str, str], Outcome]:
    """What every user is told by every request."""
    with logged_in(address, ADMIN) as admin:
        names = {user: _make_things(admin, f"of-{user}") for user in USERS if user != ADMIN}
        before = _acl_count(admin)
        for right in RIGHTS:
            _give(admin, right, names[right.user])
        given = sum(5 if right.permission is Permission.DENY else 1 for right in RIGHTS)
        wait_until(lambda: _acl_count(admin) >= before + given, PATIENCE_S)
    found = {}
    for user, things in names.items():
        with logged_in(address, user) as wire:
            for case in (case for case in CASES if case.api not in LOGIN):
                found[user, case.label] = _outcome(wire, case, things)
    return found


def _outcome(wire: Wire, case: Case, names: Names) -> Outcome:
    answer = wire.ask(case.request(names), case.version, case.answer)
    return Outcome(frozenset(codes_in(answer)) & REFUSALS, frozenset(operations_in(answer)))


def _make_things(admin: Wire, prefix: str) -> Names:
    topic = create_topic(admin, f"{prefix}-topic")
    assert topic.name is not None
    names = Names(topic.name, topic.topic_id, f"{prefix}-group", f"{prefix}-txn", f"{prefix}-new")
    commit = OffsetCommitRequest(
        group_id=names.group,
        topics=[
            OffsetCommitRequestTopic(
                name=names.topic,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0)],
            )
        ],
    )

    def committed() -> bool:
        admin.ask(FindCoordinatorRequest(coordinator_keys=[names.group]), 4, FindCoordinatorResponse)
        answer = admin.ask(commit, 8, OffsetCommitResponse)
        return answer.topics[0].partitions[0].error_code == 0

    wait_until(committed, PATIENCE_S)
    return names


def _give(admin: Wire, right: Right, names: Names) -> None:
    resources = {
        ResourceType.TOPIC: names.topic,
        ResourceType.GROUP: names.group,
        ResourceType.TRANSACTIONAL_ID: names.transactional_id,
        ResourceType.CLUSTER: CLUSTER,
    }
    if right.permission is Permission.DENY:
        for kind, name in resources.items():
            allow(admin, right.user, kind, name, Operation.ALL)
    allow(
        admin,
        right.user,
        right.kind,
        resources[right.kind][:-2] if right.pattern is PatternType.PREFIXED else resources[right.kind],
        right.operation,
        permission=right.permission,
        pattern=right.pattern,
    )


def _acl_count(admin: Wire) -> int:
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = admin.ask(request, 3, DescribeAclsResponse)
    assert answer.error_code == 0
    return sum(len(resource.acls) for resource in answer.resources)


def _listed(wire: Wire, names: Names) -> tuple[bool, bool, bool]:
    topics = wire.ask(MetadataRequest(topics=None), 12, MetadataResponse).topics
    groups = wire.ask(ListGroupsRequest(), 4, ListGroupsResponse).groups
    ids = wire.ask(ListTransactionsRequest(), 0, ListTransactionsResponse).transaction_states
    return (
        names.topic in {topic.name for topic in topics},
        names.group in {group.group_id for group in groups},
        names.transactional_id in {state.transactional_id for state in ids},
    )
