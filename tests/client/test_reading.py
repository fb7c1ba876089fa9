"""Ranges read as Arrow: what others wrote, over markers, aborted data and gaps."""

from __future__ import annotations

import confluent_kafka
import pyarrow as pa
import pytest

from oncestream.client.admin import delete_records
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.reading import read_many, read_range
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Transactions
from oncestream.client.writing import Writer
from oncestream.errors import DataLost, RequestTimedOut
from tests.client.kit import impatient, new_name, new_topic, numbered, read_all, rows_of, values_in


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_another_client_wrote_is_read(cluster: Cluster, bootstrap: str, compression: str) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 20}
    )
    for number in range(500):
        producer.produce(
            here.topic, f"v{number}", f"k{number}", headers=[("h", b"x")], timestamp=1_000_000 + number
        )
    producer.flush()
    (table,) = [pa.Table.from_batches(read_range(cluster, here, 0, 500, headers=True))]
    assert table["offset"].to_pylist() == list(range(500))
    assert table["key"].to_pylist() == [f"k{number}".encode() for number in range(500)]
    assert table["value"].to_pylist() == [f"v{number}".encode() for number in range(500)]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_000_000_000 + 1000 * n for n in range(500)]
    assert table["headers"][7].as_py() == [{"key": "h", "value": b"x"}]


def test_a_range_starts_and_ends_inside_batches(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    write(cluster, here, numbered(100))
    write(cluster, here, numbered(100, "w"))
    assert values_in(read_range(cluster, here, 90, 110)) == [*numbered(100)[90:], *numbered(10, "w")]
    assert list(read_range(cluster, here, 50, 50)) == []


def test_many_small_fetches_lose_and_repeat_nothing(bootstrap: str) -> None:
    cluster = Cluster(
        ClientSettings.of(bootstrap, {"fetch.max.bytes": "1", "max.partition.fetch.bytes": "1"})
    )
    here = TopicPartition(new_topic(cluster), 0)
    for start in range(0, 200, 10):
        write(cluster, here, numbered(200)[start : start + 10])
    assert values_in(read_range(cluster, here, 0, 200)) == numbered(200)
    cluster.close()


def test_aborted_rows_and_markers_are_passed_over(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    name = new_name()
    transactions = Transactions(cluster, name, 60_000)
    transactions.start()
    for number in range(4):
        writer = Writer(cluster, producer=transactions.producer, transactional_id=name)
        transactions.add_partitions([here])
        writer.write(here, rows_of(numbered(5, f"{number}-")))
        writer.flush()
        _ = transactions.commit() if number % 2 else transactions.fence_abort()
    # Four markers and twenty rows: the range ends on a marker.
    assert values_in(read_range(cluster, here, 0, 24)) == [*numbered(5, "1-"), *numbered(5, "3-")]
    everything = values_in(read_range(cluster, here, 0, 24, read_committed=False))
    assert everything == [value for number in range(4) for value in numbered(5, f"{number}-")]


def test_a_range_of_nothing_but_aborted_rows_ends(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    name = new_name()
    transactions = Transactions(cluster, name, 60_000)
    writer = Writer(cluster, producer=transactions.start(), transactional_id=name)
    transactions.add_partitions([here])
    writer.write(here, rows_of(numbered(5)))
    writer.flush()
    transactions.fence_abort()
    assert list(read_range(cluster, here, 0, 6)) == []


def test_rows_that_retention_deleted_are_reported_as_lost(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    write(cluster, here, numbered(10))
    delete_records(cluster, {here: 5})
    with pytest.raises(DataLost, match=f"offset 2 of {here.topic}-0"):
        list(read_range(cluster, here, 2, 10))
    with pytest.raises(DataLost):
        list(read_many(cluster, {here: (2, 10)}))
    assert values_in(read_range(cluster, here, 5, 10)) == numbered(10)[5:]


def test_an_open_transaction_holds_back_what_lies_behind_it(cluster: Cluster, bootstrap: str) -> None:
    hasty = impatient(bootstrap, fetch_max_wait_ms="50")
    here = TopicPartition(new_topic(cluster), 0)
    name = new_name()
    transactions = Transactions(cluster, name, 60_000)
    writer = Writer(cluster, producer=transactions.start(), transactional_id=name)
    transactions.add_partitions([here])
    writer.write(here, rows_of(numbered(5)))
    writer.flush()
    with pytest.raises(RequestTimedOut, match="stable up to 0 of 5"):
        list(read_range(hasty, here, 0, 5))
    transactions.fence_abort()
    hasty.close()


def test_many_partitions_are_read_together(cluster: Cluster) -> None:
    topics = [new_topic(cluster, 5), new_topic(cluster, 3)]
    places = [TopicPartition(topics[0], each) for each in range(5)]
    places += [TopicPartition(topics[1], each) for each in range(3)]
    writer = Writer(cluster, producer=None)
    for here in places:
        writer.write(here, rows_of(numbered(50, f"{here}:")))
    writer.flush()
    found: dict[TopicPartition, list[str]] = {here: [] for here in places}
    for here, batch in read_many(cluster, dict.fromkeys(places, (10, 45))):
        found[here] += values_in([batch])
    assert found == {here: numbered(50, f"{here}:")[10:45] for here in places}


def test_two_ranges_can_be_read_in_turns(cluster: Cluster) -> None:
    first, second = TopicPartition(new_topic(cluster), 0), TopicPartition(new_topic(cluster), 0)
    write(cluster, first, numbered(30))
    write(cluster, second, numbered(30, "w"))
    left, right = read_range(cluster, first, 0, 30), read_range(cluster, second, 0, 30)
    assert values_in([next(left)]) == numbered(30)
    assert values_in(right) == numbered(30, "w")
    assert list(left) == []


def test_a_reader_that_is_left_half_way_disturbs_nobody(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    write(cluster, here, numbered(10))
    write(cluster, here, numbered(10, "w"))
    reader = read_range(cluster, here, 0, 20)
    next(reader)
    reader.close()  # type: ignore[attr-defined]
    assert read_all(cluster, here) == [*numbered(10), *numbered(10, "w")]
    assert list_offsets(cluster, {here: LATEST}) == {here: 20}


def write(cluster: Cluster, here: TopicPartition, values: list[str]) -> None:
    writer = Writer(cluster, producer=None)
    writer.write(here, rows_of(values))
    writer.flush()
