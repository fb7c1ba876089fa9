"""Consumer groups as real clients use them."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Consumer

from tests.clients.client import Client, Message
from tests.clients.conftest import NewTopic, wait_until


def test_a_group_reads_from_the_start_and_commits(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"%d" % n) for n in range(10)])
    received = client.consume_in_group(topic, f"group-of-{topic}", 10)
    assert [r.value for r in received] == [b"%d" % n for n in range(10)]
    assert client.committed(topic, f"group-of-{topic}", 0) == 10


def test_a_group_goes_on_where_it_committed(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"first")])
    assert [r.value for r in client.consume_in_group(topic, f"group-of-{topic}", 1)] == [b"first"]
    client.produce(topic, [Message(b"second")])
    assert [r.value for r in client.consume_in_group(topic, f"group-of-{topic}", 1)] == [b"second"]


def test_groups_do_not_see_each_other(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"x")])
    for group in ("one", "two"):
        assert len(client.consume_in_group(topic, f"{group}-of-{topic}", 1)) == 1


def test_a_group_that_never_committed_has_no_offset(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert client.committed(topic, f"group-of-{topic}", 0) is None


def test_a_member_gets_all_partitions_of_its_topic(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    client.produce(topic, [Message(b"x", partition=n % 4) for n in range(40)])
    received = client.consume_in_group(topic, f"group-of-{topic}", 40)
    assert Counter(r.partition for r in received) == {0: 10, 1: 10, 2: 10, 3: 10}


def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=4)
    config = {"bootstrap.servers": bootstrap, "group.id": f"group-of-{topic}"}
    stays, leaves = Consumer(config), Consumer(config)
    try:
        stays.subscribe([topic])
        leaves.subscribe([topic])
        wait_until(lambda: [owned(stays), owned(leaves)] == [2, 2])
        leaves.close()
        wait_until(lambda: owned(stays) == 4)
    finally:
        stays.close()


def owned(consumer: Consumer) -> int:
    consumer.poll(0.1)
    return len(consumer.assignment())
