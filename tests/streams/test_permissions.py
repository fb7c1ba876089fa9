"""Permissions of streams: as access rules, and as users of a cluster with an authorizer meet them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException

from oncestream.client.acls import Acl, AclFilter, create_acls, delete_acls, describe_acls
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import NotAuthorized
from oncestream.streams.attributes import StreamAttributes
from oncestream.streams.descriptor_log import TOPIC
from oncestream.streams.names import StreamPath
from oncestream.streams.permissions import acls_of
from oncestream.streams.stream import Stream
from oncestream.streams.topics import topics_to_make
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from tests.conftest import Secured
from tests.streams.kit import TIMEOUT_S, consume, new_path, produce, soon

PUMP: Final = StreamPath("/apps/pump")
TOPIC_REFUSED: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED: Final = KafkaError.GROUP_AUTHORIZATION_FAILED


def operations(acls: set[Acl]) -> dict[str, set[str]]:
    """What each principal may do: `resource.operation`."""
    found: dict[str, set[str]] = {}
    for acl in acls:
        assert (acl.resource, acl.pattern) == ("apps.pump.", PatternType.PREFIXED)
        found.setdefault(acl.principal, set()).add(f"{acl.resource_type.name}.{acl.operation.name}")
    return found


def test_each_permission_is_the_rules_that_the_documentation_lists() -> None:
    given = StreamAttributes(
        auto_create=False, produce="u:a", consume="u:b", topic="u:c", copy="u:d", admin="u:e"
    )
    assert operations(acls_of(PUMP, given)) == {
        "User:a": {"TOPIC.WRITE", "TOPIC.DESCRIBE", "TRANSACTIONAL_ID.WRITE"},
        "User:b": {"TOPIC.READ", "TOPIC.DESCRIBE", "GROUP.READ"},
        "User:c": {"TOPIC.CREATE", "TOPIC.ALTER", "TOPIC.DELETE", "TOPIC.DESCRIBE", "TOPIC.DESCRIBE_CONFIGS"},
        "User:d": {"TOPIC.READ", "TOPIC.DESCRIBE", "TOPIC.DESCRIBE_CONFIGS"},
        "User:e": {"TOPIC.ALL", "GROUP.ALL", "TRANSACTIONAL_ID.ALL"},
    }


def test_who_may_produce_may_make_topics_where_the_stream_makes_them_on_first_use() -> None:
    assert "TOPIC.CREATE" in operations(acls_of(PUMP, StreamAttributes(produce="u:a")))["User:a"]


def test_everyone_is_one_principal_and_nobody_none() -> None:
    assert operations(acls_of(PUMP, StreamAttributes(consume="p"))).keys() == {"User:*"}
    assert acls_of(PUMP, StreamAttributes()) == set()


class Users:
    """What the users of a cluster do to one stream."""

    def __init__(self, secured: Secured) -> None:
        self.secured = secured
        self.path = StreamPath(new_path("secured"))
        self.topic = self.path.topic("warning")

    def stream(self, user: str) -> Stream:
        return Stream(self.path.text, self.secured.bootstrap_servers, self.secured.settings_of(user))

    def writes(self, user: str) -> None:
        produce(self.secured.bootstrap_servers, self.topic, [user], self.secured.settings_of(user))

    def reads(self, user: str, group: str | None = None) -> list[str]:
        group = group or f"{self.path.prefix}{user}"
        return consume(self.secured.bootstrap_servers, self.topic, group, 1, self.secured.settings_of(user))


@pytest.fixture
def users(secured: Secured) -> Users:
    return Users(secured)


@pytest.fixture
def admin(secured: Secured) -> Iterator[Cluster]:
    client = Cluster(ClientSettings.of(secured.bootstrap_servers, secured.settings_of("admin")))
    yield client
    client.close()


def allowed(act: Callable[[], object]) -> None:
    """It works, once every part of the cluster knows the rules."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            act()
            return
        except (KafkaException, NotAuthorized):
            assert time.monotonic() < deadline


def refused(act: Callable[[], object], code: int) -> None:
    """A Kafka client is told this, once every part of the cluster knows the rules."""

    def outcome() -> int | None:
        try:
            act()
        except KafkaException as error:
            return int(error.args[0].code())
        return None

    soon(outcome, lambda found: found == code)


def test_users_may_do_what_the_stream_says_and_others_get_the_error_a_client_understands(
    users: Users,
) -> None:
    users.stream("admin").create(produce="u:alice", consume="u:bob", topic="u:carol")
    allowed(lambda: users.stream("carol").create_topic("warning"))
    allowed(lambda: users.writes("alice"))
    assert users.reads("bob") == ["alice"]
    assert users.stream("carol").topic_info("warning").partitions[0].size_bytes is None
    refused(lambda: users.writes("bob"), TOPIC_REFUSED)
    refused(lambda: users.writes("carol"), TOPIC_REFUSED)
    refused(lambda: users.reads("carol"), GROUP_REFUSED)
    refused(lambda: users.reads("bob", "another-group"), GROUP_REFUSED)
    for user in ("alice", "bob", "carol"):
        with pytest.raises(NotAuthorized):
            users.stream(user).edit(ttl_s=1)
        with pytest.raises(NotAuthorized):
            users.stream(user).delete()


def test_a_user_who_may_see_no_stream_can_still_use_plain_topics(users: Users, admin: Cluster) -> None:
    users.stream("admin").create()
    everyone = AclFilter(ResourceType.TOPIC, TOPIC)
    hidden = delete_acls(admin, [everyone])
    client = Cluster(ClientSettings.of(users.secured.bootstrap_servers, users.secured.settings_of("bob")))
    try:
        soon(lambda: describe_acls(admin, everyone), lambda rules: not rules)
        with pytest.raises(NotAuthorized, match=TOPIC):
            soon(lambda: topics_to_make(client, [f"{users.path}:warning"]), lambda _: False)
        assert topics_to_make(client, ["orders.dead"]) == []
    finally:
        create_acls(admin, hidden)
        client.close()


def test_a_permission_that_is_changed_is_given_and_taken_away(users: Users, admin: Cluster) -> None:
    stream = users.stream("admin")
    stream.create(produce="u:alice", consume="u:bob")
    stream.create_topic("warning")
    by_hand = Acl(
        ResourceType.TOPIC,
        users.path.prefix,
        PatternType.PREFIXED,
        "User:carol",
        Operation.READ,
        Permission.DENY,
    )
    create_acls(admin, [by_hand])
    allowed(lambda: users.writes("alice"))
    stream.edit(produce="u:bob")
    allowed(lambda: users.writes("bob"))
    refused(lambda: users.writes("alice"), TOPIC_REFUSED)
    stream.delete()
    left = soon(lambda: _rules(admin, users.path), lambda rules: len(rules) < 2)
    assert left == [by_hand]
    delete_acls(admin, [AclFilter(resource=users.path.prefix, pattern=PatternType.PREFIXED)])


def test_a_stream_belongs_to_its_creator(users: Users, admin: Cluster) -> None:
    users.stream("admin").create()
    users.stream("admin").delete()  # the topic of descriptors is there now
    cluster_rights = [
        Acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:alice", Operation.ALTER),
        Acl(ResourceType.TOPIC, TOPIC, PatternType.LITERAL, "User:alice", Operation.WRITE),
    ]
    with pytest.raises(NotAuthorized):
        users.stream("alice").create()
    create_acls(admin, cluster_rights)
    try:
        allowed(users.stream("alice").create)
        info = users.stream("alice").info()
        assert info.owner == "alice"
        assert set(info.attributes.permissions().values()) == {"u:alice"}
        allowed(lambda: users.stream("alice").create_topic("warning"))
        allowed(lambda: users.writes("alice"))
        assert users.reads("alice") == ["alice"]
        allowed(lambda: users.stream("alice").edit(ttl_s=60))
        refused(lambda: users.writes("bob"), TOPIC_REFUSED)
        users.stream("alice").delete()
    finally:
        delete_acls(
            admin,
            [
                AclFilter(acl.resource_type, acl.resource, acl.pattern, acl.principal, acl.operation)
                for acl in cluster_rights
            ],
        )


def _rules(cluster: Cluster, path: StreamPath) -> list[Acl]:
    return describe_acls(cluster, AclFilter(resource=path.prefix, pattern=PatternType.PREFIXED))
