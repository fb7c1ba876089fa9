"""ListOffsets as real clients use it: earliest, latest, by timestamp, of the largest timestamp."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka import admin as typed_admin

from tests.clients.client import TIMEOUT_S, Client, Message
from tests.clients.conftest import NewTopic

START_MS = 1_700_000_000_000
FOREVER = "-1"  # the timestamps lie years back


def test_an_empty_partition_begins_and_ends_at_0(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms=FOREVER)
    assert (client.earliest(topic), client.latest(topic)) == (0, 0)
    assert client.offset_at(topic, START_MS) is None


def test_the_latest_offset_is_one_past_the_last_record(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    client.produce(topic, [Message(b"x", partition=1)] * 5)
    assert [client.latest(topic, partition) for partition in (0, 1)] == [0, 5]
    assert [client.earliest(topic, partition) for partition in (0, 1)] == [0, 0]


def test_a_timestamp_finds_the_first_record_at_or_after_it(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms=FOREVER)
    stamps = [START_MS + 10 * number for number in range(20)]
    client.produce(topic, [Message(b"x", timestamp_ms=stamp) for stamp in stamps], compression="gzip")
    client.produce(topic, [Message(b"x", timestamp_ms=stamps[-1] + 1000)])
    found = {stamp: client.offset_at(topic, stamp) for stamp in (0, stamps[7], stamps[7] + 1, stamps[-1] + 1)}
    assert found == {0: 0, stamps[7]: 7, stamps[7] + 1: 8, stamps[-1] + 1: 20}
    assert client.offset_at(topic, stamps[-1] + 1001) is None


def test_a_timestamp_is_found_where_timestamps_go_back(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms=FOREVER)
    for stamp in (START_MS, START_MS + 500, START_MS + 100, START_MS + 900, START_MS + 200):
        client.produce(topic, [Message(b"x", timestamp_ms=stamp)])
    asked = (START_MS + 50, START_MS + 150, START_MS + 501, START_MS + 901)
    assert [client.offset_at(topic, stamp) for stamp in asked] == [1, 1, 3, None]


def test_deleting_records_moves_the_earliest_offset(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms=FOREVER)
    client.produce(topic, [Message(b"x", timestamp_ms=START_MS + n) for n in range(10)])
    assert client.delete_records(topic, 4) == 4
    assert (client.earliest(topic), client.latest(topic)) == (4, 10)
    assert client.offset_at(topic, START_MS) == 4
    assert [r.offset for r in client.consume(topic, {0: 0}, 6)] == list(range(4, 10))


def test_the_largest_timestamp_is_found_with_its_offset(
    bootstrap: str, clients: list[Client], new_topic: NewTopic
) -> None:
    topic = new_topic(retention_ms=FOREVER)
    for stamp in (START_MS, START_MS + 900, START_MS + 100):
        clients[0].produce(topic, [Message(b"x", timestamp_ms=stamp)])
    wanted = TopicPartition(topic, 0)
    spec = typed_admin.OffsetSpec.max_timestamp()  # type: ignore[attr-defined, no-untyped-call]
    admin = typed_admin.AdminClient({"bootstrap.servers": bootstrap})
    answer = admin.list_offsets({wanted: spec})[wanted].result(TIMEOUT_S)
    assert (answer.offset, answer.timestamp) == (1, START_MS + 900)
