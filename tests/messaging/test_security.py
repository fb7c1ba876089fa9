"""Producers and consumers that may not: they learn why, soon, and no password is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.broker.security.users import add_user_offline
from oncestream.client.acls import Acl, create_acls
from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import AuthenticationFailed, DeliveryFailed, NotAuthorized, OncestreamError
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.producer import Producer
from oncestream.wire.acl_codes import Operation, PatternType, ResourceType
from tests.messaging.kit import take, values

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker where alice may do everything, bob may read `open` in group `bobs`, and carol nothing."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    for name in ("alice", "bob", "carol", "dora"):
        add_user_offline(folder, name, PASSWORD)
    with Broker(
        folder,
        listen="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_mechanisms="SCRAM-SHA-512",
        authorization=True,
        super_users="User:alice",
    ) as broker:
        address = broker.bootstrap_servers
        with closing(Cluster(ClientSettings.of(address, _login("alice")))) as cluster:
            create_topics(cluster, [NewTopic("open", 1)])
            create_acls(
                cluster, [_may("bob", Operation.READ, "open"), _may("bob", Operation.READ, group="bobs")]
            )
        yield address


def test_those_who_may_write_and_read_do(guarded: str) -> None:
    with Producer(guarded, settings=_login("alice")) as producer:
        producer.send("open", "v")
    with Consumer("open", group="bobs", bootstrap_servers=guarded, settings=_login("bob")) as consumer:
        assert values(take(consumer, 1)) == ["v"]


def test_a_wrong_password_is_an_error_at_once(guarded: str) -> None:
    wrong = {**_login("alice"), "sasl.password": "hush"}
    producer = Producer(guarded, settings=wrong)
    with pytest.raises(AuthenticationFailed, match="refused the login by SCRAM-SHA-512") as caught:
        producer.send("open", "v")
    assert "hush" not in str(caught.value)
    with pytest.raises(AuthenticationFailed):
        Consumer("open", group="g", bootstrap_servers=guarded, settings=wrong)


def test_who_may_not_write_is_told(guarded: str) -> None:
    with pytest.raises(OncestreamError, match="not allowed"), _producer(guarded, "bob") as producer:
        producer.send("open", "v")
    with pytest.raises(NotAuthorized, match="open"), _producer(guarded, "carol") as producer:
        producer.send("open", "v")


def test_who_may_not_read_is_told(guarded: str) -> None:
    with pytest.raises(NotAuthorized, match="open"):
        Consumer("open", group="bobs", bootstrap_servers=guarded, settings=_login("carol"))
    with (
        Consumer("open", group="not-bobs", bootstrap_servers=guarded, settings=_login("bob")) as consumer,
        pytest.raises(NotAuthorized, match="not-bobs"),
    ):
        take(consumer, 1)


def test_who_may_not_use_a_transactional_id_is_told(guarded: str) -> None:
    with pytest.raises(NotAuthorized, match="txn"):
        Producer(guarded, settings=_login("bob"), transactional_id="txn")
    with pytest.raises(AuthenticationFailed):
        Producer(guarded, settings={**_login("bob"), "sasl.password": "no"}, transactional_id="txn")


def test_a_delivery_that_is_not_allowed_names_its_topic(guarded: str) -> None:
    with closing(Cluster(ClientSettings.of(guarded, _login("alice")))) as cluster:
        create_topics(cluster, [NewTopic("other", 1)], exist_ok=True)
        create_acls(
            cluster, [_may("dora", Operation.WRITE, "other"), _may("dora", Operation.DESCRIBE, "open")]
        )
    with (
        pytest.raises(DeliveryFailed, match=r"a record for open .*not allowed"),
        _producer(guarded, "dora") as producer,
    ):
        producer.send("open", "v")


def _may(user: str, operation: Operation, topic: str | None = None, group: str = "") -> Acl:
    kind = ResourceType.GROUP if topic is None else ResourceType.TOPIC
    return Acl(kind, topic or group, PatternType.LITERAL, f"User:{user}", operation)


def _producer(address: str, user: str) -> Producer:
    return Producer(address, settings=_login(user))


def _login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
