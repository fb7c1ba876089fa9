"""Connections cut, brokers restarted, leaders killed: nothing is lost, doubled or out of order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.client.admin import NewTopic, create_topics, describe_topics
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import LATEST, Committed, committed_offsets, list_offsets
from oncestream.client.reading import read_many, read_range
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Transactions, idempotent_producer
from oncestream.client.writing import Writer
from oncestream.errors import BrokerUnreachable, CommitUnknown
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.network_faults import ALWAYS, NetworkFault
from oncestream.testing.ports import free_address
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from tests.client.kit import (
    confluent_read,
    impatient,
    new_name,
    new_topic,
    numbered,
    read_all,
    rows_of,
    values_in,
)

SMALL = 2_000


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[FaultProxy]:
    with FaultProxy(bootstrap) as running:
        yield running


def test_a_commit_whose_answer_is_lost_is_found_to_have_taken_place(proxy: FaultProxy) -> None:
    cluster = Cluster(ClientSettings.of(proxy.bootstrap_servers))
    here, group, name = TopicPartition(new_topic(cluster), 0), new_name("group"), new_name()
    transactions = Transactions(cluster, name, 60_000)
    first = transactions.start()
    writer = Writer(cluster, producer=first, transactional_id=name)
    transactions.add_partitions([here])
    writer.write(here, rows_of(numbered(10)))
    writer.flush()
    transactions.commit_offsets(group, {here: Committed(10, "m")})
    lost = proxy.cut_after(ApiKey.END_TXN)
    following = transactions.commit()
    assert lost.hits == 1
    assert proxy.requests.count(ApiKey.END_TXN) >= 2
    assert following > first
    assert read_all(cluster, here) == numbered(10)
    assert committed_offsets(cluster, group, [here]) == {here: Committed(10, "m")}
    cluster.close()


def test_a_commit_whose_answer_never_comes_is_unknown_and_the_offsets_tell(
    proxy: FaultProxy, bootstrap: str
) -> None:
    cluster = impatient(proxy.bootstrap_servers, default_api_timeout_ms="500")
    calm = Cluster(ClientSettings.of(bootstrap))
    here, group, name = TopicPartition(new_topic(calm), 0), new_name("group"), new_name()
    producer = Transactions(calm, name, 60_000).start()
    Transactions.joined(calm, name, producer).commit_offsets(group, {here: Committed(10, "m")})
    transactions = Transactions.joined(cluster, name, producer)
    transactions.add_partitions([here])
    proxy.cut_after(ApiKey.END_TXN, times=ALWAYS)
    with pytest.raises(CommitUnknown, match=name):
        transactions.commit()
    Transactions(calm, name, 60_000).start()
    assert committed_offsets(calm, group, [here]) == {here: Committed(10, "m")}
    cluster.close()
    calm.close()


def test_a_fence_abort_whose_answer_is_lost_is_asked_for_again(proxy: FaultProxy) -> None:
    cluster = Cluster(ClientSettings.of(proxy.bootstrap_servers))
    here, name = TopicPartition(new_topic(cluster), 0), new_name()
    transactions = Transactions(cluster, name, 60_000)
    first = transactions.start()
    transactions.commit_offsets(new_name("group"), {here: Committed(1)})
    lost = proxy.cut_after(ApiKey.INIT_PRODUCER_ID)
    assert transactions.fence_abort() > first
    assert lost.hits == 1
    transactions.commit_offsets(new_name("group"), {here: Committed(1)})
    transactions.commit()
    cluster.close()


def test_a_write_whose_answer_is_lost_is_not_doubled(proxy: FaultProxy) -> None:
    cluster = Cluster(ClientSettings.of(proxy.bootstrap_servers))
    topic = new_topic(cluster, 3)
    writer = Writer(cluster, producer=idempotent_producer(cluster), request_bytes_max=SMALL)
    places = [TopicPartition(topic, each) for each in range(3)]
    cuts: list[NetworkFault] = []
    for start in range(0, 1000, 50):
        proxy.clear()
        cuts.append(proxy.cut_after(ApiKey.PRODUCE))
        for here in places:
            writer.write(
                here, rows_of(numbered(1000, f"{here.partition}-")[start : start + 50]), batch_bytes_max=SMALL
            )
    told = writer.flush()
    assert any(cut.hits for cut in cuts)
    assert [(each.first_offset, each.last_offset, each.rows) for each in told] == [(0, 999, 1000)] * 3
    for here in places:
        assert read_all(cluster, here) == numbered(1000, f"{here.partition}-")
    cluster.close()


def test_a_read_goes_on_after_its_connection_was_cut(proxy: FaultProxy) -> None:
    cluster = Cluster(
        ClientSettings.of(proxy.bootstrap_servers, {"fetch.max.bytes": "1", "max.partition.fetch.bytes": "1"})
    )
    topic = new_topic(cluster, 2)
    here, there = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for start in range(0, 100, 10):
        writer = Writer(cluster, producer=None)
        writer.write(here, rows_of(numbered(100)[start : start + 10]))
        writer.write(there, rows_of(numbered(100, "w")[start : start + 10]))
        writer.flush()
    cuts: list[NetworkFault] = []
    found: list[str] = []
    for batch in read_range(cluster, here, 0, 100):
        proxy.clear()
        cuts.append(proxy.cut_after(ApiKey.FETCH))
        found += values_in([batch])
    assert found == numbered(100)
    both: dict[TopicPartition, list[str]] = {here: [], there: []}
    for partition, batch in read_many(cluster, {here: (0, 100), there: (0, 100)}):
        proxy.clear()
        cuts.append(proxy.cut_after(ApiKey.FETCH))
        both[partition] += values_in([batch])
    assert both == {here: numbered(100), there: numbered(100, "w")}
    assert any(cut.hits for cut in cuts)
    cluster.close()


def test_nobody_listening_is_said_with_the_address() -> None:
    address = free_address()
    cluster = Cluster(ClientSettings.of(address, {"default.api.timeout.ms": "100"}))
    with pytest.raises(BrokerUnreachable, match=address):
        cluster.partitions_of(["t"])


def test_a_broker_restarted_while_writing_and_reading_loses_and_doubles_nothing(tmp_path: Path) -> None:
    listen = free_address()
    cluster = Cluster(ClientSettings.of(listen))
    name = new_name()
    broker = Broker(tmp_path, listen=listen, process=True).start()
    try:
        create_topics(cluster, [NewTopic("t", 2)])
        places = [TopicPartition("t", each) for each in range(2)]
        transactions = Transactions(cluster, name, 60_000)
        writer = Writer(
            cluster, producer=transactions.start(), transactional_id=name, request_bytes_max=SMALL
        )
        for start in range(0, 1000, 50):
            for here in places:
                rows = rows_of(numbered(1000, f"{here.partition}-")[start : start + 50])
                writer.write(here, rows, batch_bytes_max=SMALL)
            if start == 500:
                broker.kill()
                broker = Broker(tmp_path, listen=listen, process=True).start()
        writer.flush()
        transactions.add_partitions(places)
        transactions.commit_offsets("g", {places[0]: Committed(1)})
        transactions.commit()
        for here in places:
            assert read_all(cluster, here) == numbered(1000, f"{here.partition}-")
        small = Cluster(ClientSettings.of(listen, {"fetch.max.bytes": "1", "max.partition.fetch.bytes": "1"}))
        found: list[str] = []
        for number, batch in enumerate(read_range(small, places[0], 0, 1000)):
            found += values_in([batch])
            if number == 3:
                broker.kill()
                broker = Broker(tmp_path, listen=listen, process=True).start()
        assert number > 3, "it was restarted before the end"
        assert found == numbered(1000, "0-")
        small.close()
    finally:
        broker.stop()
        cluster.close()


@pytest.mark.slow
@pytest.mark.java
def test_a_leader_killed_in_the_middle_of_a_transaction_loses_and_doubles_nothing(
    three_nodes: ApacheKafka,
) -> None:
    cluster = Cluster(ClientSettings.of(three_nodes.bootstrap_servers))
    create_topics(cluster, [NewTopic("t", 4, 3)])
    places = [TopicPartition("t", each) for each in range(4)]
    (state,) = describe_topics(cluster, ["t"])
    transactions = Transactions(cluster, "tx", 60_000)
    expected: list[str] = []
    for number in range(4):
        writer = Writer(
            cluster,
            producer=transactions.producer if number else transactions.start(),
            transactional_id="tx",
        )
        transactions.add_partitions(places)
        for start in range(0, 500, 50):
            for here in places:
                values = numbered(500, f"{number}-{here.partition}-")[start : start + 50]
                expected += values
                writer.write(here, rows_of(values), batch_bytes_max=SMALL)
            writer.flush()
            if number == 1 and start == 250:
                three_nodes.kill(state.partitions[0].leader)
        transactions.commit_offsets("g", {places[0]: Committed(number)})
        transactions.commit()
    found = confluent_read(three_nodes.bootstrap_servers, "t", range(4), len(expected))
    assert sorted(found) == sorted(expected)
    ends = list_offsets(cluster, dict.fromkeys(places, LATEST))
    ranges = {here: (0, end) for here, end in ends.items() if end is not None}
    mine = [value for _, batch in read_many(cluster, ranges) for value in values_in([batch])]
    assert sorted(mine) == sorted(expected)
    assert committed_offsets(cluster, "g", [places[0]]) == {places[0]: Committed(3)}
    cluster.close()
