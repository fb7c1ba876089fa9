"""The broker that a test gets: topics, committed records, restarts, kills, freezes."""

from __future__ import annotations

import os
from typing import Any

import pytest

from oncestream.errors import BadFault, BrokerFailed, RecordsMissing
from oncestream.testing import TestBroker, running_broker
from tests.broker.kit import wait_until
from tests.testing.kit import TIMEOUT_S, producer, send, transactional


def values(broker: TestBroker, topic: str, at_least: int = 0) -> list[Any]:
    return [record.value for record in broker.records(topic, at_least=at_least)]


def test_every_test_gets_a_fresh_one() -> None:
    for _ in range(3):
        with running_broker() as broker:
            assert broker.records("t") == []
            send(producer(broker.bootstrap_servers), "t", ["a"])
            assert values(broker, "t") == [b"a"]


def test_its_records_are_the_committed_ones(broker: TestBroker) -> None:
    client = transactional(broker.bootstrap_servers)
    for value, end in [("a", client.commit_transaction), ("b", client.abort_transaction)]:
        client.begin_transaction()
        send(client, "t", [value])
        end(TIMEOUT_S)
    client.begin_transaction()
    send(client, "t", ["open"])
    assert values(broker, "t") == [b"a"]
    client.commit_transaction(TIMEOUT_S)
    assert values(broker, "t", at_least=2) == [b"a", b"open"]


def test_a_record_has_its_key_headers_time_and_place(broker: TestBroker) -> None:
    broker.create_topic("/apps/pump:warning", partitions=3)
    client = producer(broker.bootstrap_servers)
    client.produce(
        "apps.pump.warning", "v", "k", partition=2, headers=[("h", b"1"), ("n", None)], timestamp=1234
    )
    client.produce("apps.pump.warning", None, "gone", partition=0)
    assert client.flush(TIMEOUT_S) == 0
    first, second = broker.records("/apps/pump:warning")
    assert (first.partition, first.offset, first.key, first.value) == (0, 0, b"gone", None)
    assert (second.partition, second.timestamp_ms, second.key, second.value) == (2, 1234, b"k", b"v")
    assert second.headers == (("h", b"1"), ("n", None))


def test_records_that_do_not_come_are_told(broker: TestBroker) -> None:
    send(producer(broker.bootstrap_servers), "t", ["a"])
    with pytest.raises(RecordsMissing, match="1 of 2 committed records"):
        broker.records("t", at_least=2, timeout_s=0.2)


def test_a_topic_has_the_configurations_it_is_given(broker: TestBroker) -> None:
    broker.create_topic("small", max_message_bytes="500")
    client = producer(broker.bootstrap_servers)
    assert send(client, "small", ["x" * 1_000]) == ["MSG_SIZE_TOO_LARGE"]


def test_it_keeps_address_and_records_when_it_is_restarted(broker: TestBroker) -> None:
    client = producer(broker.bootstrap_servers, enable_idempotence=True)
    address = broker.bootstrap_servers
    send(client, "t", ["a"])
    broker.restart()
    assert broker.bootstrap_servers == address
    assert send(client, "t", ["b"]) == [None]
    assert values(broker, "t") == [b"a", b"b"]


def test_it_comes_back_after_a_kill_with_what_it_acknowledged(broker_process: TestBroker) -> None:
    broker = broker_process
    client = producer(broker.bootstrap_servers, enable_idempotence=True)
    send(client, "t", ["a"])
    broker.kill()
    client.produce("t", "b")
    assert client.flush(0.1) == 1
    broker.restart()
    assert client.flush(TIMEOUT_S) == 0
    assert values(broker, "t") == [b"a", b"b"]


def test_a_frozen_one_answers_nobody_until_it_is_thawed(broker_process: TestBroker) -> None:
    broker = broker_process
    client = producer(broker.bootstrap_servers)
    send(client, "t", ["a"])
    broker.freeze()
    client.produce("t", "b")
    assert client.flush(0.3) == 1
    broker.thaw()
    assert client.flush(TIMEOUT_S) == 0
    assert values(broker, "t") == [b"a", b"b"]
    broker.freeze()  # and its end is clean nevertheless


def test_one_in_a_thread_cannot_be_killed_and_says_what_can(broker: TestBroker) -> None:
    for fault in (broker.kill, broker.freeze, broker.thaw):
        with pytest.raises(BadFault, match="broker_process"):
            fault()
    assert broker.records("t") == []


def test_one_that_was_stopped_says_so(broker: TestBroker) -> None:
    broker.stop()
    with pytest.raises(BrokerFailed, match="not running"):
        broker.records("t")
    broker.restart()
    assert broker.records("t") == []


class TestSettings:
    @pytest.fixture
    def broker_settings(self) -> dict[str, object]:
        return {"default_partitions": 5}

    def test_its_settings_come_from_a_fixture(self, broker: TestBroker) -> None:
        client = producer(broker.bootstrap_servers)
        wait_until(lambda: len(client.list_topics("t", TIMEOUT_S).topics["t"].partitions) == 5)


def test_its_folder_goes_with_it() -> None:
    with running_broker() as broker:
        folder = broker.folder
        assert os.listdir(folder)
    assert not folder.exists()
