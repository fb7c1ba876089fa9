"""The audit trail: what is in it, who reads it, that it lasts, and that nobody can fill the disk with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.node import Node
from oncestream.broker.security import audit
from oncestream.broker.security.users import add_user_offline
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.topic_names import AUDIT_TOPIC
from oncestream.records.records import records_of
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from oncestream.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.conftest import StartBroker
from tests.broker.kit import (
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    metadata,
    produce,
    values_of,
    wait_until,
)
from tests.broker.security.kit import LoginFailedError, log_in

ADMIN: Final = "admin"
EVE: Final = "eve"
PASSWORD: Final = "secret"
BAD_PASSWORD: Final = "guessed"
SETTINGS: Final[dict[str, Any]] = {
    "sasl_mechanisms": "SCRAM-SHA-512",
    "authorization": True,
    "super_users": ADMIN,
}

Login = Callable[[str, str], Wire]
Entry = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for user in (ADMIN, EVE):
        add_user_offline(data, user, PASSWORD)
    return data


@pytest.fixture
def login() -> Iterator[Login]:
    with ExitStack() as stack:

        def connect(address: str, user: str) -> Wire:
            wire = stack.enter_context(Wire(address, timeout_s=60))
            log_in(wire, user, PASSWORD)
            return wire

        yield connect


def entries(admin: Wire) -> list[Entry]:
    """What the audit topic holds; it may not be there yet."""
    read = fetch(admin, fetch_request(AUDIT_TOPIC))
    return [json.loads(value or b"null") for value in values_of(read.records)]


def found(admin: Wire, **wanted: object) -> list[Entry]:
    return [entry for entry in entries(admin) if wanted.items() <= entry.items()]


def test_an_administrative_change_is_recorded_before_it_is_answered(
    start_broker: StartBroker, folder: Path, login: Login
) -> None:
    admin = login(start_broker(data=folder, **SETTINGS).bootstrap_servers, ADMIN)
    create_topic(admin, "orders", partitions=3, configs={"retention.ms": "1000"})
    made = found(admin, event="change", operation="create", resource="orders")
    assert [(entry["principal"], entry["host"], entry["api"]) for entry in made] == [
        ("User:admin", "127.0.0.1", "create_topics")
    ]
    assert made[0]["change"] == {"partitions": 3, "configs": {"retention.ms": "1000"}}
    rule = AclCreation(
        resource_type=2,
        resource_name="orders",
        principal="User:eve",
        host="*",
        operation=3,
        permission_type=3,
    )
    admin.ask(CreateAclsRequest(creations=[rule]), 3, CreateAclsResponse)
    change = found(admin, operation="create acl", resource="orders")[0]["change"]
    assert (change["acl_principal"], change["acl_operation"]) == ("User:eve", "READ")
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=15_000)
    assert admin.ask(gone, 6, DeleteTopicsResponse).responses[0].error_code == 0
    assert len(found(admin, event="change", operation="delete", resource="orders")) == 1


@pytest.mark.slow
def test_a_change_that_was_answered_is_in_the_trail_after_a_crash(
    start_broker: StartBroker, folder: Path, login: Login
) -> None:
    broker = start_broker(data=folder, process=True, **SETTINGS)
    wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    answer = login(broker.bootstrap_servers, ADMIN).ask(
        CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse
    )
    broker.kill()
    assert answer.topics[0].error_code == 0
    admin = login(start_broker(data=folder, **SETTINGS).bootstrap_servers, ADMIN)
    assert len(found(admin, operation="create", resource="orders")) == 1


def test_decisions_of_one_kind_are_told_once_and_then_counted(
    start_broker: StartBroker, folder: Path, login: Login
) -> None:
    broker = start_broker(data=folder, **SETTINGS)
    admin, eve = (login(broker.bootstrap_servers, user) for user in (ADMIN, EVE))
    create_topic(admin, "orders")
    for _ in range(20):
        assert produce(admin, "orders", batch(b"x")).error_code == 0
        assert produce(eve, "orders", batch(b"x")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def told(outcome: str) -> list[int]:
        return [entry["count"] for entry in found(admin, api="produce", resource="orders", outcome=outcome)]

    wait_until(lambda: told("denied")[:1] == [1] and told("allowed")[:1] == [1], 60)
    denied = found(admin, outcome="denied", api="produce")[0]
    assert (denied["principal"], denied["operation"], denied["resource_type"]) == (
        "User:eve",
        "WRITE",
        "TOPIC",
    )
    broker.stop()
    admin = login(start_broker(data=folder, **SETTINGS).bootstrap_servers, ADMIN)
    for outcome in ("denied", "allowed"):
        assert sum(told(outcome)) == 20
        assert len(told(outcome)) <= 3


def test_a_principal_can_only_make_the_trail_grow_so_fast(
    start_broker: StartBroker, folder: Path, login: Login
) -> None:
    broker = start_broker(data=folder, **SETTINGS)
    eve = login(broker.bootstrap_servers, EVE)
    for block in range(20):
        names = [f"guess-{block}-{number}" for number in range(100)]
        codes = {topic.error_code for topic in metadata(eve, names)}
        assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    admin = login(broker.bootstrap_servers, ADMIN)
    create_topic(admin, "orders")  # waits for what comes before it
    denied = found(admin, principal="User:eve", outcome="denied")
    assert audit.RECORDS_AT_ONCE <= len(denied) < 2_000


def test_no_decision_goes_uncounted(tmp_path: Path) -> None:
    decisions = audit.RECORDS_AT_ONCE + 100
    settings = BrokerSettings(data=tmp_path, authorization=True, audit=False)

    async def decide() -> None:
        node = Node(settings, asyncio.get_running_loop(), Clock())
        node.audit = audit.Audit(node, tracked_max=50)
        call = Call(node, 0, 1, "test", "10.0.0.1:1")
        for number in range(decisions):
            assert not call.may(Operation.READ, ResourceType.TOPIC, f"guess-{number}")
        await node.close()

    async def written() -> list[Entry]:
        node = Node(settings, asyncio.get_running_loop(), Clock())
        told = entries_of(node)
        await node.close()
        return told

    asyncio.run(decide())
    told = asyncio.run(written())
    assert sum(entry["count"] for entry in told) == decisions
    assert len(told) < decisions
    assert {entry["event"] for entry in told} == {"access", "lost"}


def test_what_was_counted_is_told_now_and_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = BrokerSettings(data=tmp_path, authorization=True, audit=False)
        node = Node(settings, asyncio.get_running_loop(), Clock())
        node.audit = audit.Audit(node, sweep_s=0.02, denied_ms=1)
        call = Call(node, 0, 1, "test", "10.0.0.1:1")
        for _ in range(5):
            assert not call.may(Operation.READ, ResourceType.TOPIC, "orders")
        async with asyncio.timeout(60):
            while sum(entry["count"] for entry in entries_of(node)) < 5:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.01)
        assert [entry["count"] for entry in entries_of(node)] == [1, 4]
        await node.close()

    asyncio.run(scenario())


def entries_of(node: Node) -> list[Entry]:
    topic = node.topics.get(AUDIT_TOPIC)
    if topic is None:
        return []
    batches = topic.partitions[0].log.batches(0)
    return [json.loads(record.value or b"") for one in batches for record in records_of(one)]


def test_nobody_but_a_super_user_sees_the_trail_and_nobody_writes_it(
    start_broker: StartBroker, folder: Path, login: Login
) -> None:
    address = start_broker(data=folder, **SETTINGS).bootstrap_servers
    admin, eve = (login(address, user) for user in (ADMIN, EVE))
    everything = AclCreation(
        resource_type=2,
        resource_name="*",
        principal="User:eve",
        host="*",
        operation=2,
        permission_type=3,
    )
    admin.ask(CreateAclsRequest(creations=[everything]), 3, CreateAclsResponse)
    assert produce(eve, create_topic(eve).name or "", batch(b"x")).error_code == 0
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert fetch(eve, fetch_request(AUDIT_TOPIC)).error_code == refused
    assert metadata(eve, [AUDIT_TOPIC])[0].error_code == refused
    assert produce(eve, AUDIT_TOPIC, batch(b"x")).error_code == refused
    assert produce(admin, AUDIT_TOPIC, batch(b"x")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name=AUDIT_TOPIC)], timeout_ms=15_000)
    answer = admin.ask(deleted, 6, DeleteTopicsResponse).responses[0]
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_how_long_the_trail_is_kept_can_be_set(start_broker: StartBroker, folder: Path, login: Login) -> None:
    admin = login(start_broker(data=folder, **SETTINGS).bootstrap_servers, ADMIN)
    create_topic(admin)
    change = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resource = AlterConfigsResource(resource_type=2, resource_name=AUDIT_TOPIC, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    assert admin.ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code == 0
    altered = found(admin, operation="alter configs", resource=AUDIT_TOPIC)
    assert altered[0]["change"]["now"]["retention.ms"] == "86400000"


def test_a_failed_log_in_is_recorded(start_broker: StartBroker, folder: Path, login: Login) -> None:
    address = start_broker(data=folder, **SETTINGS).bootstrap_servers
    with Wire(address) as stranger, pytest.raises(LoginFailedError, match="wrong user name or password"):
        log_in(stranger, EVE, BAD_PASSWORD)
    admin = login(address, ADMIN)
    create_topic(admin)
    failed = found(admin, event="login", outcome="denied")
    assert [(entry["principal"], entry["host"]) for entry in failed] == [(None, "127.0.0.1")]
    assert "eve" in failed[0]["reason"]
    assert BAD_PASSWORD not in json.dumps(failed)


def test_without_authorization_or_with_audit_off_there_is_no_trail(
    start_broker: StartBroker, folder: Path, login: Login, tmp_path: Path
) -> None:
    quiet = login(start_broker(data=folder, **SETTINGS, audit=False).bootstrap_servers, ADMIN)
    with Wire(start_broker(data=tmp_path / "open").bootstrap_servers) as open_to_all:
        for wire in (quiet, open_to_all):
            create_topic(wire)
            assert metadata(wire, [AUDIT_TOPIC])[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
