"""Transactions as real clients use them, the same on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.broker.transactions.producers import Aiokafka, Confluent, FencedError, KafkaPython, Producer
from tests.clients.confluent import Confluent as Admin
from tests.clients.conftest import wait_until
from tests.conftest import Target

KINDS: dict[str, type[Producer]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
COUNTER = itertools.count()


@pytest.fixture(params=KINDS)
def new_producer(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Callable[..., Producer]]:
    """Makes producers of one library; all with the same transactional id unless told otherwise."""
    made: list[Producer] = []
    name = f"id-{os.getpid()}-{next(COUNTER)}"

    def make(transactional_id: str = name, timeout_ms: int = 60_000) -> Producer:
        made.append(KINDS[request.param](bootstrap, transactional_id, timeout_ms))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"transactions-{os.getpid()}-{next(COUNTER)}"
    admin = Admin(bootstrap)
    admin.create_topic(name, 2)
    wait_until(lambda: admin.topics().get(name) == 2)
    return name


def test_commits_are_read_aborts_are_not(new_producer: Callable[..., Producer], topic: str) -> None:
    producer = new_producer()
    for number in range(6):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, partition, b"%d" % number)
        producer.commit() if number % 2 == 0 else producer.abort()
    for partition in (0, 1):
        assert producer.read(topic, partition, committed=True) == [b"0", b"2", b"4"]
        assert producer.read(topic, partition, committed=False) == [b"%d" % n for n in range(6)]


def test_an_open_transaction_holds_committed_readers_back(
    new_producer: Callable[..., Producer], topic: str
) -> None:
    producer = new_producer()
    producer.begin()
    producer.send(topic, 0, b"done")
    producer.commit()
    producer.begin()
    producer.send(topic, 0, b"open")
    assert producer.read(topic, 0, committed=True) == [b"done"]
    assert producer.read(topic, 0, committed=False) == [b"done", b"open"]
    producer.commit()
    assert producer.read(topic, 0, committed=True) == [b"done", b"open"]


def test_a_second_producer_of_the_same_id_fences_the_first(
    new_producer: Callable[..., Producer], topic: str
) -> None:
    old = new_producer()
    old.begin()
    old.send(topic, 0, b"zombie")
    new = new_producer()
    with pytest.raises(FencedError):
        old.commit()
    new.begin()
    new.send(topic, 0, b"new")
    new.commit()
    assert new.read(topic, 0, committed=True) == [b"new"]


def test_offsets_and_records_commit_together(
    new_producer: Callable[..., Producer], topic: str, bootstrap: str
) -> None:
    producer = new_producer()
    group = f"group-{topic}"
    for offset, commit in ((3, True), (8, False)):
        producer.begin()
        producer.send(topic, 0, b"%d" % offset)
        producer.send_offset(topic, 1, offset, group)
        producer.commit() if commit else producer.abort()
    assert producer.read(topic, 0, committed=True) == [b"3"]
    wait_until(lambda: Admin(bootstrap).committed(topic, group, 1) == 3)


def test_a_transaction_that_takes_too_long_is_aborted(embedded: Target) -> None:
    """On the embedded broker only: Apache Kafka looks for them every ten seconds."""
    bootstrap = embedded.bootstrap_servers
    name = f"transactions-{os.getpid()}-{next(COUNTER)}"
    Admin(bootstrap).create_topic(name, 1)
    for kind in KINDS.values():
        producer = kind(bootstrap, f"slow-{kind.__name__}", 1_000)
        producer.begin()
        producer.send(name, 0, b"slow")
        wait_until(lambda: Admin(bootstrap).latest(name) % 2 == 0)  # the record and its marker
        with pytest.raises(FencedError):
            producer.commit()
        assert producer.read(name, 0, committed=True) == []
        producer.close()
