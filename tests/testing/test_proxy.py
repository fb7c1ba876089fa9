"""The fault proxy: what it does to requests and answers, and that clients stay on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from oncestream.client.admin import NewTopic, create_topics, describe_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadFault, FaultDidNotHappen, ProxyFailed, RequestRefused
from oncestream.testing import TestBroker
from oncestream.testing.network_faults import ALWAYS, NetworkFault
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.create_topics import CreateTopicsResponse
from oncestream.wire.messages.end_txn import EndTxnRequest
from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from oncestream.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncestream.wire.messages.list_groups import ListGroupsRequest
from oncestream.wire.schema import Message
from tests.client.kit import wait_until
from tests.clients.aio import Aiokafka
from tests.clients.client import Message as Sent
from tests.clients.confluent import Confluent
from tests.clients.kafka_python import KafkaPython
from tests.conftest import Secured
from tests.testing.kit import TIMEOUT_S, Raw, correlation_id, producer, request_of, send, transactional

HOURS_S = 3_600.0
WAITS = FetchRequest(
    max_wait_ms=300, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])]
)


@contextlib.contextmanager
def created_again(
    broker: TestBroker, fault: NetworkFault, *, happens: bool = False
) -> Iterator[Future[None]]:
    """Creates a topic; its client is cut off once the fault has hit (and the topic is there), and asks again."""
    cluster = Cluster(ClientSettings.of(broker.bootstrap_servers))
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(create_topics, cluster, [NewTopic("t")])
        fault.wait()
        if happens:
            other = Cluster(ClientSettings.of(broker.bootstrap_servers))
            wait_until(lambda: other.topics_matching("t") == ["t"])
            other.close()
        broker.cut_all()
        yield creating
    cluster.close()


def values(broker: TestBroker, topic: str, at_least: int = 0) -> list[Any]:
    return [record.value for record in broker.records(topic, at_least=at_least)]


# -- errors -----------------------------------------------------------------------------------


def test_an_error_that_passes_is_tried_again_and_the_transaction_commits(broker: TestBroker) -> None:
    client = transactional(broker.bootstrap_servers)
    fault = broker.fail_next("EndTxn", error="COORDINATOR_NOT_AVAILABLE", times=2)
    client.begin_transaction()
    send(client, "t", ["a"])
    client.commit_transaction(TIMEOUT_S)
    assert fault.hits == 2
    assert values(broker, "t") == [b"a"]


def test_an_error_for_good_reaches_the_caller_and_the_broker_never_saw_the_request(
    broker: TestBroker,
) -> None:
    broker.create_topic("t")
    broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert send(producer(broker.bootstrap_servers), "t", ["a"]) == ["TOPIC_AUTHORIZATION_FAILED"]
    assert values(broker, "t") == []


def test_an_error_of_metadata_keeps_the_addresses(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.fail_next("Metadata", "TOPIC_AUTHORIZATION_FAILED", times=ALWAYS)
    told = producer(broker.bootstrap_servers).list_topics("t", TIMEOUT_S)
    assert told.topics["t"].error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [f"{each.host}:{each.port}" for each in told.brokers.values()] == [broker.bootstrap_servers]


def test_a_made_up_error_does_not_overtake_the_answer_before_it(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.fail_next("Heartbeat", "REBALANCE_IN_PROGRESS")
    first, second = request_of(WAITS, 12, 1), request_of(HeartbeatRequest(group_id="g"), 4, 2)
    raw = Raw(broker.bootstrap_servers)
    raw.send(first.frame + second.frame)
    assert isinstance(first.decode_answer(raw.receive()), FetchResponse)
    refused = second.decode_answer(raw.receive())
    assert isinstance(refused, HeartbeatResponse)
    assert refused.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    raw.close()


def test_a_made_up_error_does_not_overtake_a_late_answer(broker: TestBroker) -> None:
    broker.fail_next("Heartbeat", "REBALANCE_IN_PROGRESS")
    broker.delay_answer("ListGroups", 0.3)
    first, second = request_of(ListGroupsRequest(), 5, 1), request_of(HeartbeatRequest(group_id="g"), 4, 2)
    raw = Raw(broker.bootstrap_servers)
    raw.send(first.frame)
    raw.send(second.frame)
    assert [correlation_id(raw.receive()) for _ in range(2)] == [1, 2]
    raw.close()


def test_of_two_answers_to_a_doubled_request_one_arrives(broker: TestBroker) -> None:
    broker.duplicate("Heartbeat")
    raw = Raw(broker.bootstrap_servers)
    for number in (1, 2, 3):
        raw.send(request_of(HeartbeatRequest(group_id="g"), 4, number).frame)
    assert [correlation_id(raw.receive()) for _ in range(3)] == [1, 2, 3]
    raw.close()


# -- which requests ---------------------------------------------------------------------------


def test_requests_can_pass_before_the_fault(broker: TestBroker) -> None:
    client = producer(broker.bootstrap_servers)
    fault = broker.fail_next("Produce", "MESSAGE_TOO_LARGE", skip=2)
    told = [send(client, "t", [value])[0] for value in "abcd"]
    assert told == [None, None, "MSG_SIZE_TOO_LARGE", None]
    assert fault.hits == 1


def test_the_requests_can_be_chosen_by_what_they_ask(broker: TestBroker) -> None:
    def aborts(request: Message) -> bool:
        return isinstance(request, EndTxnRequest) and not request.committed

    fault = broker.fail_next("EndTxn", "COORDINATOR_NOT_AVAILABLE", when=aborts)
    client = transactional(broker.bootstrap_servers)
    client.begin_transaction()
    send(client, "t", ["a"])
    client.commit_transaction(TIMEOUT_S)
    assert fault.hits == 0
    client.begin_transaction()
    send(client, "t", ["b"])
    client.abort_transaction(TIMEOUT_S)
    assert fault.hits == 1
    assert values(broker, "t") == [b"a"]


def test_a_fault_that_is_removed_is_met_by_no_request(broker: TestBroker) -> None:
    removed = broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", times=ALWAYS)
    removed.remove()
    broker.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", times=ALWAYS)
    broker.clear()
    assert send(producer(broker.bootstrap_servers), "t", ["a"]) == [None]
    with pytest.raises(FaultDidNotHappen, match="PRODUCE"):
        removed.wait(timeout_s=0)


def test_a_fault_can_last_as_long_as_a_block(broker: TestBroker) -> None:
    client = producer(broker.bootstrap_servers)
    with broker.fail_next("Produce", "MESSAGE_TOO_LARGE", times=ALWAYS):
        assert send(client, "t", ["a"]) == ["MSG_SIZE_TOO_LARGE"]
    assert send(client, "t", ["b"]) == [None]


def test_a_predicate_that_fails_is_told_when_the_proxy_closes(broker: TestBroker) -> None:
    asked = threading.Event()

    def wrong(request: Message) -> bool:
        asked.set()
        raise KeyError("a bug in the test")

    with FaultProxy(broker.bootstrap_servers) as proxy:
        proxy.drop("Produce", when=wrong)
        client = producer(proxy.bootstrap_servers)
        client.produce("t", "a")
        client.poll(0)
        assert asked.wait(TIMEOUT_S)
        with pytest.raises(ProxyFailed, match="a bug in the test"):
            proxy.close()


@pytest.mark.parametrize(("api", "error"), [("EndTransaction", "NOT_COORDINATOR"), ("EndTxn", "SAD")])
def test_a_name_that_kafka_does_not_know_is_refused(broker: TestBroker, api: str, error: str) -> None:
    with pytest.raises(BadFault, match=r"EndTransaction|SAD"):
        broker.fail_next(api, error)


def test_a_fault_no_request_can_meet_is_refused(broker: TestBroker) -> None:
    with pytest.raises(BadFault, match="times=0"):
        broker.drop("Produce", times=0)
    with pytest.raises(BadFault, match="ALTER_CLIENT_QUOTAS"):
        broker.fail_next("AlterClientQuotas", "NOT_CONTROLLER")


# -- cuts, duplicates, silence ----------------------------------------------------------------


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("trouble", ["cut_before", "cut_after", "duplicate"])
def test_what_reached_the_broker_is_doubled_unless_the_producer_is_idempotent(
    broker: TestBroker, trouble: str, idempotent: bool
) -> None:
    broker.create_topic("t")
    client = producer(broker.bootstrap_servers, enable_idempotence=idempotent)
    fault = getattr(broker, trouble)("Produce")
    assert send(client, "t", ["a"]) == [None]
    assert fault.hits == 1
    copies = 1 if idempotent or trouble == "cut_before" else 2
    assert values(broker, "t", at_least=copies) == [b"a"] * copies


def test_a_request_that_is_dropped_never_happened(broker: TestBroker) -> None:
    fault = broker.drop("CreateTopics")
    with created_again(broker, fault) as creating:
        creating.result(TIMEOUT_S)
    assert fault.hits == 1
    assert broker.requests.count(ApiKey.CREATE_TOPICS) == 2


def test_a_request_whose_answer_is_dropped_has_happened(broker: TestBroker) -> None:
    fault = broker.drop_answer("CreateTopics")
    with (
        created_again(broker, fault, happens=True) as creating,
        pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"),
    ):
        creating.result(TIMEOUT_S)


@pytest.mark.parametrize("trouble", ["drop", "drop_answer"])
def test_a_connection_that_lost_something_is_silent_from_then_on(broker: TestBroker, trouble: str) -> None:
    broker.create_topic("t")
    with FaultProxy(broker.bootstrap_servers) as proxy:
        getattr(proxy, trouble)("Heartbeat")
        lost, after = request_of(HeartbeatRequest(group_id="g"), 4, 1), request_of(WAITS, 12, 2)
        silent, other = Raw(proxy.bootstrap_servers), Raw(proxy.bootstrap_servers)
        silent.send(lost.frame + after.frame)
        for _ in range(2):  # by then the silent one would have its answer
            other.send(after.frame)
            assert isinstance(after.decode_answer(other.receive()), FetchResponse)
        proxy.close()
        assert silent.receive() == b""
        silent.close()
        other.close()


def test_a_request_that_is_held_reaches_the_broker_when_it_is_delivered(broker: TestBroker) -> None:
    held = broker.hold("CreateTopics", times=1)
    with created_again(broker, held) as creating:
        creating.result(TIMEOUT_S)
    (answer,) = held.deliver()
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "the second request made it"
    assert held.deliver() == []


def test_a_delayed_request_is_late_and_others_are_not(broker: TestBroker) -> None:
    broker.create_topic("t")
    late, soon = producer(broker.bootstrap_servers), producer(broker.bootstrap_servers)
    fault = broker.delay("Produce", HOURS_S, times=1)
    late.produce("t", "late")
    late.poll(0)
    fault.wait()
    assert send(soon, "t", ["soon"]) == [None]
    assert values(broker, "t") == [b"soon"]
    assert len(late) == 1
    late.purge()


def test_a_short_delay_only_delays(broker: TestBroker) -> None:
    delays = [broker.delay("Produce", 0.05), broker.delay_answer("Fetch", 0.05)]
    client = Confluent(broker.bootstrap_servers)
    client.produce("t", [Sent(b"a")])
    assert [record.value for record in client.consume("t", {0: 0}, 1)] == [b"a"]
    assert all(delay.hits for delay in delays)


def test_an_answer_that_is_late_is_that_of_a_request_that_has_happened(broker: TestBroker) -> None:
    client = producer(broker.bootstrap_servers)
    fault = broker.delay_answer("Produce", HOURS_S)
    client.produce("t", "a")
    fault.wait()
    assert values(broker, "t", at_least=1) == [b"a"]
    assert len(client) == 1
    client.purge()


def test_nothing_passes_while_it_is_paused(broker: TestBroker) -> None:
    broker.create_topic("t")
    client = producer(broker.bootstrap_servers)
    send(client, "t", ["before"])
    with broker.pause():
        client.produce("t", "while")
        assert client.flush(0.3) == 1
        assert values(broker, "t") == [b"before"]
    assert client.flush(TIMEOUT_S) == 0
    assert values(broker, "t") == [b"before", b"while"]


def test_clients_go_on_after_all_connections_were_cut(broker: TestBroker) -> None:
    client = producer(broker.bootstrap_servers, enable_idempotence=True)
    for value in ["a", "b", "c"]:
        send(client, "t", [value])
        broker.cut_all()
    assert values(broker, "t") == [b"a", b"b", b"c"]


# -- a good proxy -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Confluent, KafkaPython, Aiokafka])
def test_every_client_stays_on_the_proxy(broker: TestBroker, kind: type[Any]) -> None:
    client = kind(broker.bootstrap_servers)
    sent = [Sent(f"{number}".encode() * 1_000) for number in range(200)]
    client.produce("t", sent, compression="none")
    assert [record.value for record in client.consume("t", {0: 0}, 200)] == [each.value for each in sent]
    assert {ApiKey.PRODUCE, ApiKey.FETCH} <= set(broker.requests)


def test_a_producer_without_acks_gets_through_and_answers_stay_in_order(broker: TestBroker) -> None:
    broker.create_topic("t")
    client = producer(broker.bootstrap_servers, acks=0)
    for value in ["a", "b", "c"]:
        assert send(client, "t", [value]) == [None]
        assert "t" in client.list_topics(timeout=TIMEOUT_S).topics
    assert values(broker, "t", at_least=3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("trouble", ["cut_after", "drop_answer", "hold"])
def test_a_fault_of_an_answer_that_is_never_sent_is_told(broker: TestBroker, trouble: str) -> None:
    with FaultProxy(broker.bootstrap_servers) as proxy:
        fault = getattr(proxy, trouble)("Produce")
        client = producer(proxy.bootstrap_servers, acks=0)
        client.produce("t", "a")
        client.poll(0)
        fault.wait()
        with pytest.raises(BadFault, match="acks=0"):
            proxy.close()


def test_what_is_not_kafka_is_told_when_the_proxy_closes(broker: TestBroker) -> None:
    with FaultProxy(broker.bootstrap_servers) as proxy:
        raw = Raw(proxy.bootstrap_servers)
        raw.send(bytes([0x16, 3, 1, 2, 0, 1]))  # so TLS begins
        assert raw.receive() == b""
        raw.close()
        with pytest.raises(ProxyFailed, match="TLS"):
            proxy.close()


def test_a_broker_that_is_not_there_ends_the_connection(broker: TestBroker) -> None:
    with FaultProxy(broker.bootstrap_servers) as proxy:
        broker.stop()
        broker.close()
        raw = Raw(proxy.bootstrap_servers)
        assert raw.receive() == b""
        raw.close()


def test_a_proxy_of_a_proxy_works_too(broker: TestBroker) -> None:
    with FaultProxy(broker.bootstrap_servers) as proxy:
        cluster = Cluster(ClientSettings.of(proxy.bootstrap_servers))
        create_topics(cluster, [NewTopic("t", 3)])
        (state,) = describe_topics(cluster, ["t"])
        assert len(state.partitions) == 3
        assert ApiKey.CREATE_TOPICS in proxy.requests
        cluster.close()


def test_one_that_closes_while_clients_come_leaves_nothing_open(broker: TestBroker) -> None:
    def knock(bootstrap: str) -> None:
        with contextlib.suppress(OSError):
            for _ in range(5):
                with contextlib.closing(Raw(bootstrap)) as raw:
                    raw.send(request_of(ListGroupsRequest(), 5).frame)

    for _ in range(50):
        with FaultProxy(broker.bootstrap_servers) as proxy:
            knocking = threading.Thread(target=knock, args=(proxy.bootstrap_servers,))
            knocking.start()
        knocking.join(TIMEOUT_S)
        assert not knocking.is_alive()


def test_clients_log_in_through_it(secured_embedded: Secured) -> None:
    with FaultProxy(secured_embedded.bootstrap_servers) as proxy:
        fault = proxy.cut_after("SaslAuthenticate")
        settings = secured_embedded.settings_of("admin")
        client = Producer({"bootstrap.servers": proxy.bootstrap_servers, "log_level": 0} | settings)
        assert client.list_topics(timeout=TIMEOUT_S).brokers
        assert fault.hits == 1


def test_one_that_does_not_run_says_so(broker: TestBroker) -> None:
    proxy = FaultProxy(broker.bootstrap_servers)
    for use in (proxy.pause, proxy.cut_all, lambda: proxy.bootstrap_servers):
        with pytest.raises(BadFault, match="not running"):
            use()
    proxy.close()
