"""Transactions under random faults: what was committed is there once, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from oncestream.testing import ApacheKafka, FaultProxy, TestBroker, random_rules
from oncestream.testing.committed import committed_records
from tests.client.kit import new_name
from tests.conftest import Target
from tests.effort import effort
from tests.testing.kit import TIMEOUT_S, producer, send, transactional


@pytest.mark.parametrize("seed", range(1, effort(2, soak=50)))
def test_on_the_embedded_broker(broker: TestBroker, seed: int) -> None:
    check_transactions(broker, seed)


@pytest.mark.java
def test_on_apache_kafka(apache_kafka: Target) -> None:
    with FaultProxy(apache_kafka.bootstrap_servers) as proxy:
        check_transactions(proxy, seed=3)


@pytest.mark.java
@pytest.mark.slow
def test_on_three_nodes_of_apache_kafka_one_of_which_is_killed(three_nodes: ApacheKafka) -> None:
    with FaultProxy(three_nodes.bootstrap_servers) as proxy:
        assert len(proxy.bootstrap_servers.split(",")) == 3
        doors = set(proxy.bootstrap_servers.split(","))
        told = producer(proxy.bootstrap_servers).list_topics(timeout=TIMEOUT_S)
        assert {f"{each.host}:{each.port}" for each in told.brokers.values()} == doors
        three_nodes.kill(2)
        check_transactions(proxy, seed=4, transactions=8)


def check_transactions(proxy: FaultProxy, seed: int, transactions: int = 25) -> None:
    """Each writes three records and an offset, under faults of every kind."""
    topic, group = new_name(), new_name("group")
    client = transactional(proxy.bootstrap_servers)
    reader = Consumer({"bootstrap.servers": proxy.bootstrap_servers, "group.id": group, "log_level": 0})
    send_in_transaction(client, reader, topic, 0)
    faults = proxy.add_all(random_rules(seed, 20, within=transactions))
    for number in range(1, transactions):
        send_in_transaction(client, reader, topic, number)
    assert sum(fault.hits for fault in faults) > 5
    proxy.clear()
    found = [record.value for record in committed_records(proxy.bootstrap_servers, topic, 0, TIMEOUT_S)]
    assert found == [f"{number}-{part}".encode() for number in range(transactions) for part in range(3)]
    (committed,) = reader.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert committed.offset == transactions - 1
    reader.close()


def send_in_transaction(client: Any, reader: Any, topic: str, number: int) -> None:
    """Until it is committed, as Kafka's documentation says one should."""
    while True:
        client.begin_transaction()
        try:
            send(client, topic, [f"{number}-{part}" for part in range(3)])
            offsets = [TopicPartition(topic, 0, number)]
            again(client.send_offsets_to_transaction, offsets, reader.consumer_group_metadata(), TIMEOUT_S)
            again(client.commit_transaction, TIMEOUT_S)
            return
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            again(client.abort_transaction, TIMEOUT_S)


def again(call: Any, *args: object) -> None:
    """Calls it until it does not ask to be called again."""
    while True:
        try:
            call(*args)
            return
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
