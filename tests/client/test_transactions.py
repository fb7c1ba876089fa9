"""Transactions that a driver runs and several writers share, with transaction versions 1 and 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from oncestream import Broker
from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.offsets import Committed, committed_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import ProducerFenced, TransactionAborted
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.kit import Wire, wait_until
from tests.client.kit import Driver, confluent_read, new_name, new_topic, numbered, read_all

SAFE_DOWNGRADE: Final = 2


@pytest.fixture(
    scope="module",
    params=[
        "embedded, version 2",
        "embedded, version 1",
        pytest.param("apache, version 2", marks=pytest.mark.java),
        pytest.param("apache, version 1", marks=pytest.mark.java),
    ],
)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Both kinds of broker, with both versions of transactions."""
    if request.param == "embedded, version 2":
        yield request.getfixturevalue("embedded").bootstrap_servers
    elif request.param == "apache, version 2":
        yield request.getfixturevalue("apache_kafka").bootstrap_servers
    elif request.param == "embedded, version 1":
        with Broker(tmp_path_factory.mktemp("version-1")) as broker:
            downgrade(broker.bootstrap_servers)
            yield broker.bootstrap_servers
    else:
        request.getfixturevalue("java")
        with ApacheKafka() as kafka:
            downgrade(kafka.bootstrap_servers)
            yield kafka.bootstrap_servers


@pytest.fixture
def cluster(servers: str) -> Iterator[Cluster]:
    client = Cluster(ClientSettings.of(servers))
    yield client
    client.close()


def test_the_version_is_learned_from_the_broker(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    expected = 2 if "version 2" in request.node.name else 1
    assert cluster.transaction_version == expected


def test_committed_rows_are_seen_by_another_client(cluster: Cluster, servers: str) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    for number in range(5):
        driver.write(here, numbered(20, f"{number}-"))
        driver.transactions.commit()
    expected = [value for number in range(5) for value in numbered(20, f"{number}-")]
    assert confluent_read(servers, here.topic, [0], 100) == expected


def test_every_transaction_has_its_own_epoch(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    seen = [driver.transactions.producer]
    for number in range(4):
        driver.write(here, numbered(1))
        seen.append(driver.transactions.commit() if number % 2 else driver.transactions.fence_abort())
    assert len(set(seen)) == 5
    assert seen == sorted(seen)


def test_an_empty_transaction_commits_without_a_request(cluster: Cluster) -> None:
    driver = Driver(cluster)
    before = driver.transactions.producer
    assert driver.transactions.commit() == before


def test_aborted_rows_are_seen_by_nobody(cluster: Cluster, servers: str) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    driver.write(here, numbered(10, "aborted"))
    driver.transactions.fence_abort()
    driver.write(here, numbered(10, "good"))
    driver.transactions.commit()
    assert confluent_read(servers, here.topic, [0], 10) == numbered(10, "good")


def test_two_processes_write_in_one_transaction(cluster: Cluster, servers: str) -> None:
    topic = new_topic(cluster, 3)
    driver = Driver(cluster)
    driver.transactions.add_partitions([TopicPartition(topic, each) for each in range(3)])
    producer = driver.transactions.producer
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.client.other_writer", servers, driver.name]
            + [str(part) for part in (*producer, topic, each, 300)]
        )
        for each in (0, 1)
    ]
    driver.write(TopicPartition(topic, 2), numbered(300, "2-"))
    assert [other.wait(60) for other in others] == [0, 0]
    driver.transactions.commit()
    values = confluent_read(servers, topic, [0, 1, 2], 900)
    assert sorted(values) == sorted(value for each in range(3) for value in numbered(300, f"{each}-"))


def test_offsets_take_effect_with_the_commit_only(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    group = new_name("group")
    driver = Driver(cluster)
    driver.transactions.commit_offsets(group, {here: Committed(5, "first")})
    driver.transactions.commit()
    assert committed_offsets(cluster, group, [here]) == {here: Committed(5, "first")}
    driver.write(here, numbered(3))
    driver.transactions.commit_offsets(group, {here: Committed(9, "second")})
    driver.transactions.fence_abort()
    assert committed_offsets(cluster, group, [here]) == {here: Committed(5, "first")}


def test_a_new_driver_fences_the_old_one_for_good(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    old = Driver(cluster)
    old.write(here, numbered(3, "old"))
    new = Driver(cluster, old.name)
    with pytest.raises(ProducerFenced, match=old.name):
        old.transactions.commit()
    with pytest.raises(ProducerFenced):
        old.transactions.fence_abort()
    with pytest.raises(ProducerFenced):
        old.write(here, numbered(3, "older"), old.transactions.producer)
    new.write(here, numbered(3, "new"))
    new.transactions.commit()
    assert read_all(cluster, here) == numbered(3, "new")


def test_a_new_driver_fences_an_idle_one(cluster: Cluster) -> None:
    old = Driver(cluster)
    Driver(cluster, old.name)
    with pytest.raises(ProducerFenced):
        old.transactions.fence_abort()


def test_a_straggler_of_an_aborted_transaction_cannot_write(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    stale = driver.transactions.producer
    driver.write(here, numbered(3, "first"))
    driver.transactions.fence_abort()
    with pytest.raises(ProducerFenced):
        driver.write(here, numbered(3, "late"), stale)
    driver.write(here, numbered(3, "second"))
    driver.transactions.commit()
    assert read_all(cluster, here) == numbered(3, "second")


def test_a_transaction_that_timed_out_is_begun_again_by_the_same_driver(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster, timeout_ms=1_000)
    driver.write(here, numbered(3, "slow"))
    wait_until(lambda: state_of(cluster, driver.name) == "CompleteAbort", timeout_s=40)
    with pytest.raises(TransactionAborted, match="1000 ms"):
        driver.transactions.commit()
    driver.transactions.fence_abort(timeout_ms=60_000)
    driver.write(here, numbered(3, "again"))
    driver.transactions.commit()
    assert read_all(cluster, here) == numbered(3, "again")


def state_of(cluster: Cluster, name: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[name])
    told = cluster.ask_coordinator(
        CoordinatorKind.TRANSACTION, name, request, DescribeTransactionsResponse, lambda _: None
    )
    return told.transaction_states[0].transaction_state


def downgrade(bootstrap: str) -> None:
    change = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    with Wire(bootstrap) as wire:
        told = wire.ask(UpdateFeaturesRequest(feature_updates=[change]), 1, UpdateFeaturesResponse)
        assert told.error_code == 0, told

    def learned() -> bool:
        cluster = Cluster(ClientSettings.of(bootstrap))
        try:
            return cluster.transaction_version == 1
        finally:
            cluster.close()

    wait_until(learned)
