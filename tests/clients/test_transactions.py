"""Transactions as real clients use them, the same on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.broker.kit import Wire
from tests.clients.client import Message
from tests.clients.confluent import Confluent as Admin
from tests.clients.conftest import NewTopic, wait_until
from tests.clients.transactional import BATCH, COPIERS, READERS, Ending, Read, View
from tests.clients.transactional_producers import Aiokafka, Confluent, FencedError, KafkaPython, Producer

KINDS: dict[str, type[Producer]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
COUNTER = itertools.count()

NewProducer = Callable[..., "Settling"]


class Settling:
    """As on Apache Kafka, an end is answered when it is decided, a moment before everybody sees it: this one waits."""

    def __init__(self, producer: Producer, bootstrap: str, transactional_id: str) -> None:
        self.begin, self.send, self.send_offset = producer.begin, producer.send, producer.send_offset
        self.close = producer.close
        self._producer = producer
        self._bootstrap, self._id = bootstrap, transactional_id

    def commit(self) -> None:
        self._producer.commit()
        self._settle()

    def abort(self) -> None:
        self._producer.abort()
        self._settle()

    def _settle(self) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[self._id])
        with Wire(self._bootstrap) as wire:
            wait_until(lambda: not _state(wire, request).startswith("Prepare"))


def _state(wire: Wire, request: DescribeTransactionsRequest) -> str:
    return wire.ask(request, 0, DescribeTransactionsResponse).transaction_states[0].transaction_state


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def read(kind: str) -> Read:
    return READERS[kind]


@pytest.fixture
def new_producer(kind: str, bootstrap: str) -> Iterator[NewProducer]:
    """Makes producers of one library; all with the same transactional id unless told otherwise."""
    made: list[Settling] = []
    name = f"id-{os.getpid()}-{next(COUNTER)}"

    def make(transactional_id: str = name, timeout_ms: int = 60_000) -> Settling:
        made.append(
            Settling(KINDS[kind](bootstrap, transactional_id, timeout_ms), bootstrap, transactional_id)
        )
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def test_committed_readers_skip_what_was_aborted_and_end_behind_its_marker(
    new_producer: NewProducer, read: Read, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, producer = new_topic(), new_producer()
    for value, ends in ((b"one", True), (b"two", False), (b"three", True), (b"four", False)):
        producer.begin()
        producer.send(topic, 0, value)
        producer.commit() if ends else producer.abort()
    wait_until(
        lambda: read(bootstrap, topic, 0, True).end == 8
    )  # an abort is answered before its marker is there
    assert read(bootstrap, topic, 0, True) == (8, [0, 4], [b"one", b"three"], 8)
    assert read(bootstrap, topic, 0, False) == (8, [0, 2, 4, 6], [b"one", b"two", b"three", b"four"], 8)


def test_committed_readers_end_where_the_oldest_open_transaction_began(
    new_producer: NewProducer, read: Read, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    first, second = (new_producer(f"{n}-of-{topic}") for n in ("first", "second"))
    Admin(bootstrap).produce(topic, [Message(b"plain")])
    first.begin()
    first.send(topic, 0, b"first")
    second.begin()
    second.send(topic, 0, b"second")
    Admin(bootstrap).produce(topic, [Message(b"plain too")])
    assert read(bootstrap, topic, 0, False).end == 4
    assert read(bootstrap, topic, 0, True) == (1, [0], [b"plain"], 1)
    second.commit()
    assert read(bootstrap, topic, 0, True).end == 1, "the first is still open"
    first.abort()
    wait_until(lambda: read(bootstrap, topic, 0, True).end == 6)
    assert read(bootstrap, topic, 0, True).values == [b"plain", b"second", b"plain too"]


@pytest.mark.parametrize("step", ["send", "send_offset", "commit", "abort"])
def test_a_fenced_producer_can_do_nothing_more(
    new_producer: NewProducer, read: Read, bootstrap: str, new_topic: NewTopic, step: str
) -> None:
    topic = new_topic()
    old = new_producer()
    old.begin()
    old.send(topic, 0, b"zombie")
    new = new_producer()
    steps: dict[str, Callable[[], None]] = {
        "send": lambda: old.send(topic, 0, b"more of the zombie"),
        "send_offset": lambda: old.send_offset(topic, 0, 5, f"group-of-{topic}"),
        "commit": old.commit,
        "abort": old.abort,
    }
    with pytest.raises(FencedError):
        steps[step]()
    new.begin()
    new.send(topic, 0, b"new")
    new.commit()
    assert read(bootstrap, topic, 0, True).values == [b"new"]
    assert Admin(bootstrap).committed(topic, f"group-of-{topic}", 0) is None


def test_offsets_are_unstable_until_their_transaction_ends(
    new_producer: NewProducer, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, producer = new_topic(), new_producer()
    group = f"group-of-{topic}"
    producer.begin()
    producer.send_offset(topic, 0, 5, group)
    assert committed(bootstrap, group, topic) == "unstable"
    producer.abort()
    wait_until(lambda: committed(bootstrap, group, topic) is None)
    producer.begin()
    producer.send_offset(topic, 0, 7, group)
    producer.commit()
    wait_until(lambda: committed(bootstrap, group, topic) == 7)


def committed(bootstrap: str, group: str, topic: str) -> int | str | None:
    """As a reader of committed records asks: it wants no offset that may still be taken back."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
    with closing(Consumer(config)) as consumer:
        try:
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=1)
        except KafkaException as error:
            if error.args[0].code() not in {KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT}:
                raise
            return "unstable"
    return None if found.offset < 0 else int(found.offset)


@pytest.mark.slow
@pytest.mark.parametrize("library", COPIERS)
def test_consume_transform_produce_is_exact_through_aborts_and_crashes(
    library: str, bootstrap: str, new_topic: NewTopic
) -> None:
    source, sink = new_topic(partitions=2), new_topic(partitions=2)
    sent = [[b"%d" % n for n in range(p, 60, 2)] for p in (0, 1)]
    Admin(bootstrap).produce(source, [Message(v, partition=p) for p in (0, 1) for v in sent[p]])
    lives = [[Ending.COMMIT, Ending.CRASH], [Ending.COMMIT, Ending.ABORT], [Ending.CRASH]]
    for endings in lives:
        COPIERS[library](bootstrap, source, sink, f"copier-of-{source}", endings)

    def rest() -> int:
        return sum(30 - (Admin(bootstrap).committed(source, f"copier-of-{source}", p) or 0) for p in (0, 1))

    while rest() > 0:
        endings = [Ending.COMMIT] * max(1, rest() // BATCH)
        COPIERS[library](bootstrap, source, sink, f"copier-of-{source}", endings)
    view = READERS["confluent-kafka"]
    assert [view(bootstrap, sink, p, True).values for p in (0, 1)] == sent
    assert sum(len(view(bootstrap, sink, p, False).values) for p in (0, 1)) > 60, "aborted copies are there"


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, new_topic: NewTopic) -> None:
    """All libraries in one test: Apache Kafka looks for such transactions only every ten seconds."""

    def aborted(view: Callable[[], View]) -> bool:
        return view().end == 2

    topic = new_topic(partitions=len(KINDS))
    producers = [kind(bootstrap, f"{name}-of-{topic}", 1_000) for name, kind in KINDS.items()]
    for partition, producer in enumerate(producers):
        producer.begin()
        producer.send(topic, partition, b"slow")
    for partition, (name, producer) in enumerate(zip(KINDS, producers, strict=True)):
        view = partial(READERS[name], bootstrap, topic, partition, True)
        wait_until(partial(aborted, view))
        with pytest.raises(FencedError):
            producer.commit()
        assert view().values == []
        producer.close()
