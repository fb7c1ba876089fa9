"""ACLs: what a rule covers, which rule wins, and that they last."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.security.acls import Acl, AclFilter, check_new
from oncestream.broker.security.authorizer import CACHED_MAX, Authorizer, parse_super_users
from oncestream.broker.security.principal import Principal
from oncestream.broker.topic_names import AUDIT_TOPIC
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from oncestream.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from oncestream.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import Wire

ALICE: Final = Principal("User", "alice")
HERE: Final = "10.0.0.1"
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ANYTHING: Final = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)


@dataclass
class Table:
    """Where the authorizer finds its rules."""

    acls: set[Acl] = field(default_factory=set)
    acls_version: int = 0

    def change(self, *acls: Acl) -> None:
        self.acls = set(acls)
        self.acls_version += 1


def rule(
    operation: Operation = Operation.READ,
    name: str = "orders",
    permission: Permission = ALLOW,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def allowed(
    *rules: Acl,
    operation: Operation = Operation.READ,
    name: str = "orders",
    who: Principal = ALICE,
    host: str = HERE,
    open_without_rules: bool = False,
) -> bool:
    authorizer = Authorizer(
        Table(set(rules)), [Principal("User", "root")], allow_if_no_acl=open_without_rules
    )
    return authorizer.allows(who, host, operation, ResourceType.TOPIC, name)


def test_without_a_rule_the_answer_is_no() -> None:
    assert not allowed()
    assert not allowed(rule(), name="order")
    assert not allowed(rule(), name="orders2")
    assert not allowed(rule(kind=ResourceType.GROUP))


def test_a_super_user_may_do_everything_even_against_a_deny() -> None:
    root = Principal("User", "root")
    assert allowed(rule(permission=DENY, principal="User:root"), who=root)


@pytest.mark.parametrize(
    "covering",
    [
        rule(),
        rule(name="*"),
        rule(name="ord", pattern=PREFIXED),
        rule(name="orders", pattern=PREFIXED),
        rule(principal="User:*"),
        rule(Operation.ALL),
        rule(host=HERE),
    ],
)
def test_a_rule_covers_by_name_prefix_wildcard_everyone_all_operations_and_host(covering: Acl) -> None:
    assert allowed(covering)
    assert not allowed(covering, covering._replace(permission=DENY))


@pytest.mark.parametrize(
    "elsewhere",
    [
        rule(name="orders-", pattern=PREFIXED),
        rule(name="*", pattern=PREFIXED),
        rule(principal="User:bob"),
        rule(principal="Group:alice"),
        rule(Operation.WRITE),
        rule(host="10.0.0.2"),
    ],
)
def test_a_rule_does_not_cover_what_it_does_not_name(elsewhere: Acl) -> None:
    assert not allowed(elsewhere)
    assert allowed(rule(), elsewhere._replace(permission=DENY))


def test_a_deny_of_any_reach_wins() -> None:
    allow = rule(Operation.ALL)
    for deny in (rule(name="*", permission=DENY), rule(name="o", pattern=PREFIXED, permission=DENY)):
        assert not allowed(allow, deny)


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_whoever_may_use_a_topic_may_describe_it(operation: Operation) -> None:
    assert allowed(rule(operation), operation=Operation.DESCRIBE)
    assert allowed(rule(Operation.ALL), rule(operation, permission=DENY), operation=Operation.DESCRIBE)
    assert not allowed(
        rule(operation), rule(Operation.DESCRIBE, permission=DENY), operation=Operation.DESCRIBE
    )


def test_whoever_may_alter_configs_may_describe_them() -> None:
    assert allowed(rule(Operation.ALTER_CONFIGS), operation=Operation.DESCRIBE_CONFIGS)
    assert not allowed(rule(Operation.ALTER_CONFIGS), operation=Operation.DESCRIBE)
    assert not allowed(rule(Operation.DESCRIBE_CONFIGS), operation=Operation.DESCRIBE)


def test_what_no_rule_names_can_be_open_to_everybody() -> None:
    assert allowed(open_without_rules=True)
    assert not allowed(rule(principal="User:bob"), open_without_rules=True)
    assert not allowed(name=AUDIT_TOPIC, open_without_rules=True)


def test_only_super_users_see_the_audit_topic() -> None:
    everything = rule(Operation.ALL, name="*")
    assert not allowed(everything, name=AUDIT_TOPIC)
    assert allowed(everything, name=AUDIT_TOPIC, who=Principal("User", "root"))


def test_a_changed_rule_counts_at_once() -> None:
    table = Table()
    authorizer = Authorizer(table, [], allow_if_no_acl=False)
    question = (ALICE, HERE, Operation.READ, ResourceType.TOPIC, "orders")
    assert not authorizer.allows(*question)
    table.change(rule())
    assert authorizer.allows(*question)
    table.change(rule(), rule(permission=DENY))
    assert not authorizer.allows(*question)


def test_what_a_client_asks_does_not_fill_the_memory() -> None:
    authorizer = Authorizer(Table({rule(name="x", pattern=PREFIXED)}), [], allow_if_no_acl=False)
    for number in range(CACHED_MAX + 10):
        assert not authorizer.allows(ALICE, HERE, Operation.READ, ResourceType.TOPIC, f"guess-{number}")
    assert len(authorizer._cache) <= CACHED_MAX
    authorizer._cache.clear()
    assert authorizer.allows(ALICE, HERE, Operation.READ, ResourceType.TOPIC, "x" * 100_000)
    assert len(authorizer._cache) == 0


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([], False),
        ([rule(Operation.WRITE)], True),
        ([rule(Operation.ALL, name="o", pattern=PREFIXED)], True),
        ([rule(Operation.READ)], False),
        ([rule(Operation.WRITE), rule(Operation.WRITE, permission=DENY)], False),
        ([rule(Operation.WRITE), rule(Operation.WRITE, name="or", pattern=PREFIXED, permission=DENY)], False),
        ([rule(Operation.WRITE), rule(Operation.WRITE, name="*", permission=DENY)], False),
        ([rule(Operation.WRITE), rule(Operation.WRITE, name="other", permission=DENY)], True),
        ([rule(Operation.WRITE, name="*"), rule(Operation.WRITE, name="other", permission=DENY)], True),
    ],
)
def test_whether_there_is_any_topic_one_may_write_to(rules: list[Acl], may: bool) -> None:
    authorizer = Authorizer(Table(set(rules)), [], allow_if_no_acl=False)
    assert authorizer.allows_on_any(ALICE, HERE, Operation.WRITE, ResourceType.TOPIC) is may


def test_super_users_are_separated_by_commas_or_by_semicolons() -> None:
    assert parse_super_users(" User:a, b ,,") == {Principal("User", "a"), Principal("User", "b")}
    assert parse_super_users("User:CN=x,O=y;b") == {Principal("User", "CN=x,O=y"), Principal("User", "b")}
    assert parse_super_users("") == frozenset()


@given(
    names=st.lists(st.text("ab*", min_size=1, max_size=4), min_size=1, max_size=6),
    patterns=st.lists(st.sampled_from([LITERAL, PREFIXED]), min_size=6, max_size=6),
    permissions=st.lists(st.sampled_from([ALLOW, DENY]), min_size=6, max_size=6),
    asked=st.text("ab", min_size=1, max_size=4),
)
def test_the_index_finds_the_rules_that_a_look_at_all_of_them_finds(
    names: list[str], patterns: list[PatternType], permissions: list[Permission], asked: str
) -> None:
    rules = {
        rule(name=name, pattern=pattern, permission=permission)
        for name, pattern, permission in zip(names, patterns, permissions, strict=False)
    }
    wanted = ANYTHING._replace(name=asked, pattern=PatternType.MATCH)
    found = {acl.permission for acl in rules if wanted.matches(acl)}
    assert allowed(*rules, name=asked) == (found == {ALLOW})


@given(
    st.builds(
        Acl,
        st.sampled_from([kind for kind in ResourceType if kind is not ResourceType.ANY]),
        st.text(min_size=1),
        st.sampled_from([LITERAL, PREFIXED]),
        st.text(min_size=1),
        st.text(min_size=1),
        st.sampled_from([op for op in Operation if op is not Operation.ANY]),
        st.sampled_from([ALLOW, DENY]),
    )
)
def test_a_rule_is_read_from_the_catalogue_as_it_was_written(acl: Acl) -> None:
    assert Acl.parse(acl.text) == acl


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_type": 99},
        {"pattern": 2},
        {"operation": 1},
        {"permission": 1},
        {"name": ""},
        {"principal": "alice"},
        {"principal": "User:"},
        {"host": ""},
        {"name": "x" * 5_000},
        {"resource_type": ResourceType.CLUSTER, "name": "my-cluster"},
    ],
)
def test_a_rule_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = rule()._asdict()
    with pytest.raises(KafkaError) as refused:
        check_new(**(right | wrong))  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_REQUEST


# -- on a broker ---------------------------------------------------------------------------------


def creation(name: str = "orders", principal: str = "User:alice") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def create(wire: Wire, *creations: AclCreation) -> list[int]:
    answer = wire.ask(CreateAclsRequest(creations=list(creations)), 3, CreateAclsResponse)
    return [result.error_code for result in answer.results]


def described(wire: Wire, name: str | None = None) -> list[str]:
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = wire.ask(request, 3, DescribeAclsResponse)
    assert answer.error_code == 0, answer
    return [found.resource_name for found in answer.resources for _ in found.acls]


def test_acls_are_made_described_and_deleted_and_outlive_the_broker(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    broker = start_broker(data=folder, authorization=True, super_users="ANONYMOUS")
    wire = connect(broker.bootstrap_servers)
    assert create(wire, creation(), creation("bills"), creation("x", "alice"), creation()) == [0, 0, 42, 0]
    assert described(wire) == ["bills", "orders"]
    wanted = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="bills",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    deleted = wire.ask(DeleteAclsRequest(filters=[wanted]), 3, DeleteAclsResponse).filter_results[0]
    assert [acl.resource_name for acl in deleted.matching_acls] == ["bills"]
    broker.stop()
    again = connect(start_broker(data=folder, authorization=True, super_users="ANONYMOUS").bootstrap_servers)
    assert described(again) == ["orders"]
    assert described(again, "nothing") == []


def test_without_authorization_there_are_no_acls(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker().bootstrap_servers)
    assert create(wire, creation()) == [ErrorCode.SECURITY_DISABLED]
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1, operation=1)])
    answer = wire.ask(request, 3, DeleteAclsResponse)
    assert answer.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
    described_answer = wire.ask(DescribeAclsRequest(operation=1), 3, DescribeAclsResponse)
    assert described_answer.error_code == ErrorCode.SECURITY_DISABLED
