"""Groups as real clients see them: rebalances, static members, both protocols, and a broker that stops or dies."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncestream import Broker
from oncestream.testing.ports import free_address
from tests.broker.conftest import StartBroker
from tests.broker.kit import wait_until

PARTITIONS = 4

NewConsumer = Callable[..., Consumer]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all tests of this file that need no other."""
    with Broker(tmp_path_factory.mktemp("groups")) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(address: str) -> str:
    return make_topic(address)


@pytest.fixture
def new_consumer() -> Iterator[NewConsumer]:
    """Makes consumers that are closed when the test ends."""
    with ExitStack() as stack:

        def make(bootstrap: str, **config: object) -> Consumer:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
            stack.callback(consumer.close)
            return consumer

        yield make


def make_topic(bootstrap: str, records: int = 0) -> str:
    name = f"topic-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        producer.produce(name, b"%d" % number, partition=number % PARTITIONS)
    producer.flush()
    return name


def owned(consumer: Consumer) -> int:
    consumer.poll(0.02)
    return len(consumer.assignment())


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []

    def enough() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
        return len(values) >= count

    wait_until(enough)
    return values


def first_error(consumer: Consumer) -> KafkaError:
    errors: list[KafkaError] = []

    def told() -> bool:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        errors.extend([] if error is None else [error])
        return bool(errors)

    wait_until(told)
    return errors[0]


class Rebalances:
    """What a consumer was told to own and to give up, call by call."""

    def __init__(self) -> None:
        self.assigned: list[int] = []
        self.revoked: list[int] = []

    def subscribe(self, consumer: Consumer, topic: str) -> None:
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: self.assigned.append(len(partitions)),
            on_revoke=lambda _, partitions: self.revoked.append(len(partitions)),
        )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_share_the_partitions_and_take_over(
    start_broker: StartBroker, new_consumer: NewConsumer, protocol: str
) -> None:
    broker = start_broker(consumer_group_heartbeat_interval_ms=200).bootstrap_servers
    topic = make_topic(broker, records=40)
    options: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 100
    first, second = new_consumer(broker, **options), new_consumer(broker, **options)
    first.subscribe([topic])
    assert set(read(first, 40)) == {b"%d" % n for n in range(40)}
    second.subscribe([topic])
    wait_until(lambda: (owned(first), owned(second)) == (2, 2))
    second.unsubscribe()
    second.close()
    wait_until(lambda: owned(first) == PARTITIONS)


def test_a_cooperative_member_keeps_what_stays_with_it(
    address: str, topic: str, new_consumer: NewConsumer
) -> None:
    options: dict[str, Any] = {"group_id": topic, "heartbeat_interval_ms": 100}
    options["partition_assignment_strategy"] = "cooperative-sticky"
    first, second = new_consumer(address, **options), new_consumer(address, **options)
    seen = Rebalances()
    seen.subscribe(first, topic)
    wait_until(lambda: owned(first) == PARTITIONS)
    second.subscribe([topic])
    wait_until(lambda: (owned(first), owned(second)) == (2, 2))
    assert seen.revoked == [2]


def test_a_static_member_comes_back_without_a_rebalance(
    address: str, topic: str, new_consumer: NewConsumer
) -> None:
    options: dict[str, Any] = {"group_id": topic, "heartbeat_interval_ms": 100, "session_timeout_ms": 30_000}
    first = new_consumer(address, group_instance_id="one", **options)
    second = new_consumer(address, group_instance_id="two", **options)
    seen = Rebalances()
    seen.subscribe(first, topic)
    second.subscribe([topic])
    wait_until(lambda: (owned(first), owned(second)) == (2, 2))
    before, partitions = len(seen.assigned), second.assignment()
    second.close()
    back = new_consumer(address, group_instance_id="two", **options)
    back.subscribe([topic])
    wait_until(lambda: (owned(first), owned(back)) == (2, 2))
    assert back.assignment() == partitions
    assert len(seen.assigned) == before


def test_a_second_process_with_the_same_instance_id_fences_the_first(
    address: str, topic: str, new_consumer: NewConsumer
) -> None:
    options: dict[str, Any] = {"group_id": topic, "heartbeat_interval_ms": 100, "group_instance_id": "one"}
    first = new_consumer(address, **options)
    first.subscribe([topic])
    wait_until(lambda: owned(first) == PARTITIONS)
    second = new_consumer(address, **options)
    second.subscribe([topic])
    wait_until(lambda: owned(second) == PARTITIONS)
    assert "fenced" in first_error(first).str()
    assert second.assignment()


def test_a_group_without_offsets_starts_at_the_earliest_record(
    address: str, new_consumer: NewConsumer
) -> None:
    topic = make_topic(address, records=1)
    consumer = new_consumer(address, group_id=topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    assert read(consumer, 1) == [b"0"]


def test_a_group_without_offsets_starts_at_the_latest_record(address: str, new_consumer: NewConsumer) -> None:
    topic = make_topic(address, records=1)
    consumer = new_consumer(address, group_id=topic, auto_offset_reset="latest")
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": address})
    values: list[bytes | None] = []

    def arrived() -> bool:
        """Where "latest" is, is settled only some time after the assignment."""
        producer.produce(topic, b"new", partition=0)
        producer.flush()
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        return bool(values)

    wait_until(arrived)
    assert values == [b"new"]


def test_a_group_without_offsets_that_wants_no_reset_is_told_so(
    address: str, new_consumer: NewConsumer
) -> None:
    topic = make_topic(address, records=1)
    consumer = new_consumer(address, group_id=topic, auto_offset_reset="error")
    consumer.subscribe([topic])
    assert first_error(consumer).code() == KafkaError._AUTO_OFFSET_RESET


def test_a_commit_from_outside_is_refused_while_members_are_in(
    address: str, topic: str, new_consumer: NewConsumer
) -> None:
    member = new_consumer(address, group_id=topic)
    member.subscribe([topic])
    wait_until(lambda: owned(member) == PARTITIONS)
    outsider = new_consumer(address, group_id=topic)
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        outsider.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)


@pytest.mark.parametrize("crash", [False, True], ids=["clean stop", "SIGKILL"])
def test_offsets_and_members_are_the_same_after_a_restart(
    start_broker: StartBroker, new_consumer: NewConsumer, crash: bool
) -> None:
    listen = free_address()
    broker = start_broker(process=True, listen=listen)
    topic = make_topic(broker.bootstrap_servers)
    consumer = new_consumer(broker.bootstrap_servers, group_id="g")
    consumer.commit(
        offsets=[TopicPartition(topic, p, 100 + p, metadata=f"meta {p}") for p in range(PARTITIONS)],
        asynchronous=False,
    )
    member = new_consumer(broker.bootstrap_servers, group_id="members", session_timeout_ms=45_000)
    member.subscribe([topic])
    wait_until(lambda: owned(member) == PARTITIONS)
    before = describe(broker)
    if crash:
        broker.kill()
    else:
        broker.stop()
    again = start_broker(process=True, data=broker.settings.data, listen=listen)
    assert describe(again) == before
    reader = new_consumer(again.bootstrap_servers, group_id="g")
    found = reader.committed([TopicPartition(topic, p) for p in range(PARTITIONS)], timeout=10)
    assert [(tp.offset, tp.metadata) for tp in found] == [(100 + p, f"meta {p}") for p in range(PARTITIONS)]


def describe(broker: Broker) -> list[tuple[object, ...]]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    listed = admin.list_consumer_groups().result().valid
    groups = admin.describe_consumer_groups([group.group_id for group in listed])
    return sorted(
        (
            group.group_id,
            str(group.state),
            group.partition_assignor,
            *(
                (member.member_id, member.client_id, sorted(map(str, member.assignment.topic_partitions)))
                for member in group.members
            ),
        )
        for group in (future.result() for future in groups.values())
    )


def test_offsets_of_a_deleted_topic_do_not_come_back_with_a_new_one(
    address: str, topic: str, new_consumer: NewConsumer
) -> None:
    consumer = new_consumer(address, group_id=topic)
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result()
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
    assert consumer.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == -1001


def test_two_aiokafka_members_share_and_take_over(address: str, topic: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address)
        await producer.start()
        options: dict[str, Any] = {
            "bootstrap_servers": address,
            "group_id": topic,
            "heartbeat_interval_ms": 100,
        }
        first, second = AIOKafkaConsumer(topic, **options), AIOKafkaConsumer(topic, **options)
        await first.start()
        await second.start()
        async with asyncio.timeout(30):
            while (len(first.assignment()), len(second.assignment())) != (2, 2):
                await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
            await second.stop()
            while len(first.assignment()) != PARTITIONS:
                await first.getmany(timeout_ms=50)
        await first.stop()
        await producer.stop()

    asyncio.run(run())
