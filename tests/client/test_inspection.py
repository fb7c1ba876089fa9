"""Transactions seen from outside, and ended by force."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from oncestream.client.cluster import Cluster
from oncestream.client.inspection import (
    Hanging,
    TransactionListing,
    TransactionPhase,
    abort_transaction,
    describe_producers,
    describe_transactions,
    hanging_transactions,
    list_transactions,
)
from oncestream.client.offsets import LATEST, Committed, commit_offsets, list_offsets
from oncestream.client.open_transactions import open_transactions
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer
from oncestream.client.writing import PRODUCE_VERSION_1, Writer
from oncestream.errors import OncestreamError, ProducerFenced, UnknownTransaction, UnknownTransactionState
from tests.client.kit import (
    Driver,
    live_consumer,
    new_name,
    new_topic,
    numbered,
    read_all,
    rows_of,
    wait_until,
    write,
)
from tests.conftest import Target
from tests.java_tools import KafkaTools

TOOL = "org.apache.kafka.tools.TransactionsCommand"
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Driver]:
    """Ends what its test left open."""
    driver = Driver(cluster)
    yield driver
    driver.transactions.fence_abort()


def test_an_open_transaction_is_listed_and_described(cluster: Cluster, driver: Driver) -> None:
    topic = new_topic(cluster, 3)
    for partition in (2, 0):
        driver.write(TopicPartition(topic, partition), numbered(1))
    writer = driver.transactions.producer
    assert TransactionListing(driver.name, writer.producer_id, "Ongoing") in list_transactions(cluster)
    (state,) = describe_transactions(cluster, [driver.name])
    assert (state.producer_id, state.epoch, state.state) == (*writer, TransactionPhase.ONGOING)
    assert state.timeout_ms == 60_000
    assert state.start_ms is not None
    assert state.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 2))


def test_transactions_are_found_by_state_and_by_age(cluster: Cluster, driver: Driver) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    ended = Driver(cluster)
    ended.write(here, numbered(1))
    ended.transactions.commit()
    ended.wait_for_markers()
    driver.write(here, numbered(1))

    def names(states: tuple[str, ...] = (), older_than_ms: int | None = None) -> set[str]:
        return {each.transactional_id for each in list_transactions(cluster, states, older_than_ms)}

    both = {driver.name, ended.name}
    assert both <= names()
    assert names(("Ongoing",)) & both == {driver.name}
    assert names(("CompleteCommit", "Empty")) & both == {ended.name}
    wait_until(lambda: names(older_than_ms=1) & both == {driver.name})
    assert not names(older_than_ms=3_600_000) & both


def test_a_state_that_there_is_not_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(UnknownTransactionState, match="Sleeping"):
        list_transactions(cluster, ["Ongoing", "Sleeping"])


def test_a_transactional_id_that_there_is_not_is_named(cluster: Cluster) -> None:
    with pytest.raises(UnknownTransaction, match="nobody"):
        describe_transactions(cluster, ["nobody"])


def test_a_partition_tells_who_wrote_to_it(cluster: Cluster, driver: Driver) -> None:
    here, other = (TopicPartition(new_topic(cluster), 0) for _ in range(2))
    write(cluster, here, numbered(4))
    driver.write(here, numbered(3))
    found = describe_producers(cluster, [here, other])
    assert found[other] == []
    (state,) = found[here]
    assert (state.producer_id, state.epoch) == driver.transactions.producer
    assert (state.last_sequence, state.txn_start_offset) == (2, 4)
    driver.transactions.commit()
    driver.wait_for_markers()
    (state,) = describe_producers(cluster, [here])[here]
    assert state.txn_start_offset is None


def test_who_holds_a_partition_back_and_which_groups_wait_for_it(
    cluster: Cluster, driver: Driver, bootstrap: str
) -> None:
    topic = new_topic(cluster, 2)
    here, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    second, stopped, live, elsewhere = Driver(cluster), new_name("a"), new_name("b"), new_name("c")
    write(cluster, here, numbered(2))
    write(cluster, other, numbered(2))
    driver.write(here, numbered(3))
    second.write(here, numbered(1))
    commit_offsets(cluster, stopped, {here: Committed(2)})
    commit_offsets(cluster, elsewhere, {other: Committed(2)})
    with live_consumer(bootstrap, live, topic):
        first, last = open_transactions(cluster, [topic])
        assert first in open_transactions(cluster)
    assert (first.partition, first.transactional_id, first.start_offset) == (here, driver.name, 2)
    assert (last.partition, last.transactional_id, last.start_offset) == (here, second.name, 5)
    assert (first.holds, last.holds) == (True, False)
    assert (first.last_stable_offset, first.high_watermark) == (2, 6)
    assert first.state == TransactionPhase.ONGOING
    assert first.waiting_groups == (stopped, live)
    for each in (driver, second):
        each.transactions.commit()
        each.wait_for_markers()
    assert open_transactions(cluster, [topic]) == []


def test_a_transaction_that_its_coordinator_knows_does_not_hang(cluster: Cluster, driver: Driver) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver.write(here, numbered(1))
    wait_until(lambda: open_transactions(cluster, [here.topic]) != [])
    assert hanging_transactions(cluster, 0, [here.topic]) == []


def test_a_transaction_is_aborted_by_force(cluster: Cluster, driver: Driver) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    write(cluster, here, ["before"])
    driver.write(here, ["aborted"])
    write(cluster, here, ["after"])
    (state,) = [each for each in describe_producers(cluster, [here])[here] if each.txn_start_offset == 1]
    abort_transaction(cluster, here, state.producer_id, state.epoch, state.coordinator_epoch)
    assert list_offsets(cluster, {here: LATEST}) == {here: 4}
    assert read_all(cluster, here) == ["before", "after"]
    with pytest.raises(UnknownTransaction, match=str(here)):
        abort_transaction(cluster, here, state.producer_id, state.epoch, state.coordinator_epoch)


def test_an_old_epoch_aborts_nothing(cluster: Cluster, driver: Driver) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver.write(here, numbered(1))
    driver.transactions.commit()
    driver.write(here, numbered(1))
    producer_id, epoch = driver.transactions.producer
    with pytest.raises(ProducerFenced):
        abort_transaction(cluster, here, producer_id, epoch - 1, 0)
    assert open_transactions(cluster, [here.topic])


@pytest.mark.java
def test_hanging_transactions_are_those_that_kafkas_own_tool_finds(
    apache_kafka: Target, kafka_tool: KafkaTools
) -> None:
    """One of a producer that no coordinator knows, and one whose coordinator has ended it elsewhere."""
    servers = apache_kafka.bootstrap_servers
    cluster = Cluster(ClientSettings.of(servers))
    topic = new_topic(cluster, 2)
    unknown, known = TopicPartition(topic, 0), TopicPartition(topic, 1)
    driver = Driver(cluster)
    of_driver = driver.transactions.producer
    verify_transactions(servers, False)
    try:
        wait_until(lambda: late_write(cluster, unknown, Producer(987_654, 0)))
        wait_until(lambda: late_write(cluster, known, of_driver, driver.name))
    finally:
        verify_transactions(servers, True)
    found = hanging_transactions(cluster, 0, [topic])
    assert [(each.partition, each.producer_id, each.transactional_id) for each in found] == [
        (unknown, 987_654, None),
        (known, of_driver.producer_id, driver.name),
    ]
    told = kafka_tool(
        TOOL,
        "--bootstrap-server",
        servers,
        "find-hanging",
        "--topic",
        topic,
        "--max-transaction-timeout",
        "0",
    )
    assert lines_of(found) == tool_lines(told.stdout)
    for each in found:
        abort_transaction(cluster, each.partition, each.producer_id, each.epoch, each.coordinator_epoch)
    assert hanging_transactions(cluster, 0, [topic]) == []
    assert open_transactions(cluster, [topic]) == []
    cluster.close()


def verify_transactions(servers: str, enabled: bool) -> None:
    """Whether partition leaders ask the coordinator about every transaction."""
    change = ConfigEntry(VERIFICATION, str(enabled).lower(), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def late_write(cluster: Cluster, here: TopicPartition, producer: Producer, name: str = "gone") -> bool:
    """A write in a transaction, as an old producer sends it; False where the leader has looked and refused."""
    writer = Writer(cluster, producer=producer, transactional_id=name)
    writer._version_max = PRODUCE_VERSION_1
    try:
        writer.write(here, rows_of(numbered(2)))
        writer.flush()
    except OncestreamError:
        return False
    return True


def lines_of(found: list[Hanging]) -> list[list[str]]:
    return [
        [str(x) for x in (each.partition.topic, each.partition.partition, each.producer_id, each.epoch)]
        for each in found
    ]


def tool_lines(output: str) -> list[list[str]]:
    return sorted(line.split()[:4] for line in output.splitlines()[1:] if line.strip())
