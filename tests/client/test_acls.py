"""Access rules through the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncestream.client.acls import Acl, AclFilter, create_acls, delete_acls, describe_acls
from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadAcl, NoAuthorizer, NotAuthorized, OncestreamError
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from tests.client.kit import new_name, numbered, read_all, wait_until, write
from tests.conftest import Secured


def client(secured: Secured, user: str) -> Cluster:
    return Cluster(ClientSettings.of(secured.bootstrap_servers, secured.settings_of(user)))


@pytest.fixture
def admin(secured: Secured) -> Iterator[Cluster]:
    cluster = client(secured, "admin")
    yield cluster
    cluster.close()


@pytest.fixture
def alice(secured: Secured) -> Iterator[Cluster]:
    cluster = client(secured, "alice")
    yield cluster
    cluster.close()


def rules_about(admin: Cluster, name: str, expected: int) -> list[Acl]:
    """Rules that apply to this name, once as many are there: a change takes a moment to reach every broker."""
    which = AclFilter(ResourceType.TOPIC, name, PatternType.MATCH)
    wait_until(lambda: len(describe_acls(admin, which)) == expected)
    return describe_acls(admin, which)


def test_rules_come_back_as_they_were_made(admin: Cluster) -> None:
    name = new_name()
    rules = [
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", Operation.READ),
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:*", Operation.WRITE, Permission.DENY),
        Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:bob", Operation.ALL, host="10.0.0.1"),
        Acl(ResourceType.TOPIC, name[:-1], PatternType.PREFIXED, "User:carol", Operation.DESCRIBE),
    ]
    others = [
        Acl(kind, name, PatternType.LITERAL, "User:alice", Operation.DESCRIBE)
        for kind in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ]
    create_acls(admin, [*rules, *others])
    create_acls(admin, rules[:1])
    assert rules_about(admin, name, 4) == sorted(rules)
    for_alice = AclFilter(resource=name, principal="User:alice")
    assert describe_acls(admin, for_alice) == sorted([rules[0], *others])
    assert describe_acls(admin, AclFilter(ResourceType.GROUP, name)) == [others[0]]
    deleted = delete_acls(admin, [AclFilter(resource=name), AclFilter(resource=name[:-1])])
    assert deleted == sorted([*rules, *others])
    assert rules_about(admin, name, 0) == []


def test_filters_tell_operations_permissions_and_hosts_apart(admin: Cluster) -> None:
    name = new_name()
    read = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", Operation.READ)
    denied = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", Operation.READ, Permission.DENY)
    near = Acl(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", Operation.WRITE, host="127.0.0.1")
    create_acls(admin, [read, denied, near])
    rules_about(admin, name, 3)
    assert describe_acls(admin, AclFilter(resource=name, operation=Operation.READ)) == [denied, read]
    assert describe_acls(admin, AclFilter(resource=name, permission=Permission.DENY)) == [denied]
    assert describe_acls(admin, AclFilter(resource=name, host="127.0.0.1")) == [near]
    assert delete_acls(admin, [AclFilter(resource=name, operation=Operation.WRITE)]) == [near]
    assert rules_about(admin, name, 2) == [denied, read]
    delete_acls(admin, [AclFilter(resource=name)])


def test_a_rule_lets_a_user_do_just_what_it_says(admin: Cluster, alice: Cluster) -> None:
    prefix = new_name("allowed")
    here = TopicPartition(f"{prefix}.one", 0)
    create_topics(admin, [NewTopic(here.topic, 1)])
    write(admin, here, numbered(3))
    with pytest.raises(NotAuthorized, match=here.topic):
        read_all(alice, here)
    create_acls(admin, [Acl(ResourceType.TOPIC, prefix, PatternType.PREFIXED, "User:alice", Operation.READ)])
    wait_until(lambda: can_read(alice, here))
    assert read_all(alice, here) == numbered(3)
    with pytest.raises(NotAuthorized, match=here.topic):
        write(alice, here, numbered(1))
    delete_acls(admin, [AclFilter(resource=prefix)])


def test_only_who_may_alter_the_cluster_changes_rules(alice: Cluster) -> None:
    rule = Acl(ResourceType.TOPIC, "mine", PatternType.LITERAL, "User:alice", Operation.ALL)
    with pytest.raises(NotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
        create_acls(alice, [rule])
    with pytest.raises(NotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
        describe_acls(alice)
    with pytest.raises(NotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
        delete_acls(alice, [AclFilter()])


@pytest.mark.parametrize(
    "rule",
    [
        Acl(ResourceType.ANY, "x", PatternType.LITERAL, "User:alice", Operation.READ),
        Acl(ResourceType.TOPIC, "x", PatternType.MATCH, "User:alice", Operation.READ),
        Acl(ResourceType.TOPIC, "x", PatternType.LITERAL, "User:alice", Operation.ANY),
        Acl(ResourceType.TOPIC, "x", PatternType.LITERAL, "User:alice", Operation.READ, Permission.ANY),
        Acl(ResourceType.TOPIC, "", PatternType.LITERAL, "User:alice", Operation.READ),
        Acl(ResourceType.TOPIC, "x", PatternType.LITERAL, "alice", Operation.READ),
    ],
)
def test_a_rule_that_could_not_be_is_refused_before_it_is_sent(embedded_cluster: Cluster, rule: Acl) -> None:
    with pytest.raises(BadAcl):
        create_acls(embedded_cluster, [rule])


def test_a_cluster_without_authorizer_says_so(cluster: Cluster) -> None:
    with pytest.raises(NoAuthorizer):
        describe_acls(cluster)
    with pytest.raises(NoAuthorizer):
        create_acls(
            cluster, [Acl(ResourceType.TOPIC, "x", PatternType.LITERAL, "User:alice", Operation.READ)]
        )


def can_read(user: Cluster, here: TopicPartition) -> bool:
    try:
        read_all(user, here)
    except OncestreamError:
        return False
    return True
