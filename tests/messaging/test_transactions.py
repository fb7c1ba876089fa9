"""Transactions of producers: all or nothing, with the consumer's position; fencing; outcomes that are not known."""

# ruff: noqa: PT012 - a transaction is one thing that is refused, and has several statements

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oncestream import Broker
from oncestream.errors import (
    ClientMisused,
    CommitUnknown,
    DeliveryFailed,
    ProducerFenced,
    RebalancedMeanwhile,
)
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.producer import Producer
from oncestream.testing.ports import free_address
from tests.client.kit import new_name
from tests.messaging.kit import new_topic, read_all, take, until_deadline, values

EAGER = {"heartbeat.interval.ms": 200}
PROTOCOLS = [
    EAGER,
    {**EAGER, "partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
]


def test_what_is_sent_in_a_transaction_comes_together_or_not_at_all(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 2)
    with Producer(bootstrap, transactional_id=new_name("txn")) as producer:
        with producer.transaction():
            producer.send(topic, "a", partition=0)
            producer.send(topic, "b", partition=1)
        with pytest.raises(KeyError), producer.transaction():
            producer.send(topic, "never", partition=0)
            producer.flush()
            raise KeyError("mine")
        with producer.transaction():
            producer.send(topic, "c", partition=0)
    assert sorted(values(read_all(bootstrap, topic, 3))) == ["a", "b", "c"]
    assert sorted(values(read_all(bootstrap, topic, 4, "read_uncommitted"))) == ["a", "b", "c", "never"]


def test_an_empty_transaction_is_fine(bootstrap: str) -> None:
    with Producer(bootstrap, transactional_id=new_name("txn")) as producer:
        for _ in range(2):
            with producer.transaction():
                pass


def test_a_newer_producer_ends_the_older_for_good(bootstrap: str) -> None:
    topic, name = new_topic(bootstrap), new_name("txn")
    older = Producer(bootstrap, transactional_id=name)
    with pytest.raises(ProducerFenced, match=name), older.transaction():
        older.send(topic, "of the older")
        older.flush()
        with Producer(bootstrap, transactional_id=name) as newer, newer.transaction():
            newer.send(topic, "of the newer")
    with pytest.raises(ProducerFenced), older.transaction():
        pytest.fail("it must not begin")
    assert values(read_all(bootstrap, topic, 1)) == ["of the newer"]


def test_a_producer_that_was_fenced_learns_it_when_it_sends(bootstrap: str) -> None:
    topic, name = new_topic(bootstrap), new_name("txn")
    older = Producer(bootstrap, transactional_id=name)
    older.begin()
    newer = Producer(bootstrap, transactional_id=name)
    with pytest.raises(ProducerFenced):
        older.send(topic, "of the older")
        older.flush()
    with newer, newer.transaction():
        newer.send(topic, "of the newer")
    for _ in range(2):
        with pytest.raises(ProducerFenced):
            older.commit()
    assert values(read_all(bootstrap, topic, 1)) == ["of the newer"]


def test_a_failed_delivery_aborts_the_transaction(bootstrap: str) -> None:
    topic, other = new_topic(bootstrap, cleanup_policy="compact"), new_topic(bootstrap)
    with Producer(bootstrap, transactional_id=new_name("txn")) as producer:
        with pytest.raises(DeliveryFailed, match=topic), producer.transaction():
            producer.send(other, "never")
            producer.send(topic, "no key")
        with producer.transaction():
            producer.send(other, "then")
    assert values(read_all(bootstrap, other, 1)) == ["then"]


def test_misuse_is_told(embedded: Any) -> None:
    plain = Producer(embedded.bootstrap_servers)
    with pytest.raises(ClientMisused, match="no transactional_id"), plain.transaction():
        pass
    topic = new_topic(embedded.bootstrap_servers)
    with (
        Producer(embedded.bootstrap_servers, transactional_id=new_name("txn")) as producer,
        Consumer(topic, group=new_name("g"), bootstrap_servers=embedded.bootstrap_servers) as consumer,
    ):
        with pytest.raises(ClientMisused, match="send cannot be done: this producer is between transactions"):
            producer.send(topic, "v")
        with pytest.raises(ClientMisused, match="commit_offsets cannot be done"):
            producer.commit_offsets(consumer)
        with pytest.raises(ClientMisused, match="commit='manual'"), producer.transaction(consumer):
            pass
        with pytest.raises(ClientMisused, match="this producer is in a transaction"), producer.transaction():
            producer.begin()
        with pytest.raises(ClientMisused, match="no commit has an unknown outcome"):
            producer.settle()


def test_positions_are_committed_with_the_transaction_and_an_abort_takes_the_consumer_back(
    bootstrap: str,
) -> None:
    source, sink, group = _source(bootstrap, 10, 1), new_topic(bootstrap), new_name("group")
    producer = Producer(bootstrap, transactional_id=new_name("txn"))
    with _consumer(bootstrap, source, group) as consumer:
        with producer.transaction():
            for record in take(consumer, 4):
                producer.send(sink, record.value)
            producer.commit_offsets(consumer)
        committed = sum(filter(None, consumer.committed().values()))
        assert committed >= 4
        for _ in range(2):
            with pytest.raises(KeyError), producer.transaction(consumer):
                producer.send(sink, next(consumer).value if committed < 10 else "never")
                raise KeyError("mine")
        while sum(filter(None, consumer.committed().values())) < 10:
            with producer.transaction(consumer):
                for record in consumer.poll(0.5):
                    producer.send(sink, record.value)
    assert values(read_all(bootstrap, sink, 10)) == [str(number) for number in range(10)]


@pytest.mark.slow
@pytest.mark.parametrize("settings", PROTOCOLS, ids=["eager", "cooperative", "consumer"])
def test_a_rebalance_between_reading_and_committing_writes_nothing_twice(
    bootstrap: str, settings: dict[str, Any]
) -> None:
    source, sink, group = _source(bootstrap, 40, 4), new_topic(bootstrap), new_name("group")
    producers = [Producer(bootstrap, transactional_id=new_name("txn")) for _ in range(2)]
    first = _consumer(bootstrap, source, group, settings=settings)
    with pytest.raises(RebalancedMeanwhile, match=group), producers[0].transaction(first):
        for record in take(first, 40):
            producers[0].send(sink, record.value)
        second = _consumer(bootstrap, source, group, settings=settings)
        for _ in until_deadline(lambda: "the second member got nothing"):
            # Inside this poll its partitions are taken away; the records above are not its own any more.
            for record in first.poll(0.1):
                producers[0].send(sink, record.value)
            second.poll(0.1)
            if second.assignment():
                second.rewind()
                break
    done: Counter[str] = Counter()
    for _ in until_deadline(lambda: f"{sum(done.values())} of 40"):
        for consumer, producer in zip((first, second), producers, strict=True):
            _copy(consumer, producer, sink, done)
        if sum(done.values()) >= 40:
            break
    first.close()
    second.close()
    assert Counter(values(read_all(bootstrap, sink, 40))) == Counter(str(number) for number in range(40))


@pytest.mark.slow
def test_a_member_that_was_put_out_commits_nothing(embedded: Any) -> None:
    """It looks, from the program, as if nothing had happened: the broker has given its partition away."""
    bootstrap = embedded.bootstrap_servers
    source, sink, group = _source(bootstrap, 10, 1), new_topic(bootstrap), new_name("group")
    settings = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000}
    producers = [Producer(bootstrap, transactional_id=new_name("txn")) for _ in range(2)]
    slow = _consumer(bootstrap, source, group, settings=settings)
    done: Counter[str] = Counter()
    with pytest.raises(RebalancedMeanwhile), producers[0].transaction():
        for record in take(slow, 10):
            producers[0].send(sink, record.value)
        with _consumer(bootstrap, source, group, settings=settings) as other:
            for _ in until_deadline(lambda: "the partition was not given away"):
                _copy(other, producers[1], sink, done)
                if sum(done.values()) == 10:
                    break
            producers[0].commit_offsets(slow)
    slow.close()
    assert values(read_all(bootstrap, sink, 10)) == [str(number) for number in range(10)]


def test_a_refused_commit_of_offsets_cannot_be_passed_over(embedded: Any) -> None:
    bootstrap = embedded.bootstrap_servers
    source, sink, group = _source(bootstrap, 4, 2), new_topic(bootstrap), new_name("group")
    producer = Producer(bootstrap, transactional_id=new_name("txn"))
    with (
        _consumer(bootstrap, source, group) as first,
        pytest.raises(RebalancedMeanwhile),
        producer.transaction(),
    ):
        for record in take(first, 4):
            producer.send(sink, record.value)
        with _consumer(bootstrap, source, group) as second:
            for _ in until_deadline(lambda: "no rebalance"):
                first.poll(0.1)
                second.poll(0.1)
                if len(first.assignment()) == 1:
                    break
        with pytest.raises(RebalancedMeanwhile):
            producer.commit_offsets(first)
    assert read_all(bootstrap, sink, 0) == []


@pytest.mark.slow
def test_a_commit_goes_through_although_the_broker_is_killed_meanwhile(tmp_path: Path) -> None:
    address = free_address()
    broker = Broker(tmp_path, process=True, listen=address).start()
    producer = Producer(address, transactional_id="txn")
    with producer.transaction():
        producer.send("topic", "0")
    with producer.transaction():
        producer.send("topic", "1")
        producer.flush()
        broker.kill()
        broker.start()
    assert values(read_all(address, "topic", 2)) == ["0", "1"]
    broker.stop()


@pytest.mark.slow
def test_an_outcome_that_is_not_known_is_told_and_can_be_found_out(tmp_path: Path) -> None:
    address = free_address()
    broker = Broker(tmp_path, process=True, listen=address).start()
    producer = Producer(address, transactional_id="txn")
    with producer.transaction():
        producer.send("topic", "known")
    producer.begin()
    producer.send("topic", "unknown")
    producer.flush()
    broker.kill()
    with pytest.raises(CommitUnknown, match="the outcome of the commit of 'txn' is not known"):
        producer.require_transactions("commit").commit(timeout_s=1.0)
    with pytest.raises(CommitUnknown, match="settle"), producer.transaction():
        pytest.fail("nothing may begin before the outcome is known")
    with Broker(tmp_path, process=True, listen=address):
        assert producer.settle() is True
        with producer.transaction():
            producer.send("topic", "after")
        assert values(read_all(address, "topic", 3)) == ["known", "unknown", "after"]


def _copy(consumer: Consumer, producer: Producer, sink: str, done: Counter[str]) -> None:
    """What a program does: one transaction per poll, once more after a rebalance."""
    texts: list[str] = []
    try:
        with producer.transaction(consumer):
            for record in consumer.poll(0.2):
                producer.send(sink, record.value)
                texts.append(record.value.decode())
    except RebalancedMeanwhile:
        return
    done.update(texts)


def _source(bootstrap: str, records: int, partitions: int) -> str:
    topic = new_topic(bootstrap, partitions)
    with Producer(bootstrap) as producer:
        for number in range(records):
            producer.send(topic, str(number), partition=number % partitions)
    return topic


def _consumer(bootstrap: str, topic: str, group: str, **options: Any) -> Consumer:
    return Consumer(
        topic,
        **{"group": group, "bootstrap_servers": bootstrap, "commit": "manual", "settings": EAGER, **options},
    )
