"""The broker killed with SIGKILL at random moments: nothing acknowledged is lost, doubled or out of order."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from oncestream import Broker
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.testing.ports import free_address
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.disk_kit import JOURNAL_FAULTS
from tests.broker.kit import Wire, batch, create_topic, fetch, fetch_request, metadata, produce, values_of
from tests.broker.numbered import LibrdkafkaProducer, NumberedProducer, PlainProducer
from tests.effort import effort

SEED: Final = int(os.environ.get("ONCESTREAM_CRASH_SEED", "20261115"))
PARTITIONS: Final = 3
TOPIC: Final = "numbers"
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
TOPIC_RESOURCE: Final = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker process on a port that stays its own."""
    made = Broker(tmp_path / "data", process=True, listen=free_address(), housekeeping_ms=100)
    with made:
        yield made


@pytest.mark.parametrize("kind", [PlainProducer, LibrdkafkaProducer])
def test_nothing_acknowledged_is_lost_or_doubled_or_out_of_order_when_the_broker_is_killed(
    kind: type[NumberedProducer], faulty: FaultyBroker
) -> None:
    """Batches are of any size; the journal fails, or has no room, every now and then."""
    kill_often(kind, faulty, effort(8, soak=300))


def kill_often(kind: type[NumberedProducer], broker: FaultyBroker, kills: int) -> None:
    rng = random.Random(SEED)
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC, PARTITIONS)
    bootstrap = broker.bootstrap_servers
    producer = kind(bootstrap, TOPIC, PARTITIONS)
    for number in range(kills):
        producer.wait_for_more()
        broker.set_faults(rng.choice(JOURNAL_FAULTS))
        time.sleep(rng.uniform(0, 0.3))  # the moment of the crash, not a wait for anything
        promised = list(producer.acknowledged)
        broker.kill()
        broker.start()
        with Wire(bootstrap) as wire:
            ends = [_end_offset(wire, partition) for partition in range(PARTITIONS)]
        assert all(end >= told for end, told in zip(ends, promised, strict=True)), (
            f"round {number}, seed {SEED}: {ends} are there, {promised} were promised"
        )
    totals = producer.finish()
    assert min(totals) > 0
    for partition, total in enumerate(totals):
        assert _read_back(bootstrap, partition, total) == list(range(total)), f"seed {SEED}"


@pytest.mark.parametrize("crash", [False, True], ids=["clean stop", "SIGKILL"])
def test_a_resent_batch_is_recognised_after_a_restart(crash: bool, broker: Broker) -> None:
    batches = [batch(b"%d" % n, b"more", producer_id=9, sequence=2 * n) for n in range(6)]
    with Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC)
        assert [produce(wire, TOPIC, one).base_offset for one in batches] == [0, 2, 4, 6, 8, 10]
    _restart(broker, crash)
    with Wire(broker.bootstrap_servers) as wire:
        assert [produce(wire, TOPIC, one).base_offset for one in batches[1:]] == [2, 4, 6, 8, 10]
        ahead = produce(wire, TOPIC, batch(b"x", producer_id=9, sequence=13))
        assert ahead.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(wire, TOPIC, batch(b"next", producer_id=9, sequence=12)).base_offset == 12
        assert len(values_of(fetch(wire, fetch_request(TOPIC)).records)) == 13


def test_producer_ids_are_never_handed_out_twice(broker: Broker) -> None:
    seen: list[int] = []
    for crash in (True, False, True):
        with Wire(broker.bootstrap_servers) as wire:
            seen += [_new_producer_id(wire) for _ in range(3)]
        _restart(broker, crash)
    assert len(set(seen)) == len(seen)


def test_a_clean_stop_leaves_its_marker_and_a_start_takes_it_away(broker: Broker) -> None:
    data = broker.settings.data
    assert not (data / CLEAN_MARKER).exists()
    broker.stop()
    assert (data / CLEAN_MARKER).exists()
    broker.start()
    assert not (data / CLEAN_MARKER).exists()
    broker.kill()
    assert not (data / CLEAN_MARKER).exists()
    broker.start()


def test_a_clean_start_does_not_read_the_log_and_an_unclean_one_does(
    tmp_path: Path, warnings_logged: Callable[[], list[str]]
) -> None:
    """Damage in the first batch shows whether anybody has read it."""
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC)
        for number in range(3):
            produce(wire, TOPIC, batch(b"%d" % number))
    segment = tmp_path / f"{TOPIC}-0" / f"{0:020d}.log"
    damaged = bytearray(segment.read_bytes())
    damaged[70] ^= 1
    segment.write_bytes(damaged)
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        assert values_of(fetch(wire, fetch_request(TOPIC, 2)).records) == [b"2"]
        assert produce(wire, TOPIC, batch(b"3")).base_offset == 3
    assert warnings_logged() == []
    (tmp_path / CLEAN_MARKER).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        assert produce(wire, TOPIC, batch(b"4")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert any("damaged at offset 0" in line for line in warnings_logged())


def test_topics_and_their_ids_and_configurations_survive_a_crash(broker: Broker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        made = [create_topic(wire, f"kept-{n}", n + 1, {"retention.ms": "-1"}) for n in range(3)]
    _restart(broker, crash=True)
    with Wire(broker.bootstrap_servers) as wire:
        for topic in made:
            again = metadata(wire, [topic.name or ""])[0]
            assert (again.topic_id, len(again.partitions)) == (topic.topic_id, len(topic.partitions))
            assert _retention_ms(wire, topic.name or "") == "-1"


def _restart(broker: Broker, crash: bool) -> None:
    if crash:
        broker.kill()
    else:
        broker.stop()
    broker.start()


def _retention_ms(wire: Wire, topic: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=["retention.ms"]
    )
    answer = wire.ask(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse)
    return answer.results[0].configs[0].value


def _new_producer_id(wire: Wire) -> int:
    return wire.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse).producer_id


def _end_offset(wire: Wire, partition: int) -> int:
    return fetch(
        wire, fetch_request(TOPIC, partition=partition, partition_bytes=1, max_bytes=1)
    ).high_watermark


def _read_back(bootstrap: str, partition: int, count: int) -> list[int]:
    """All numbers of a partition, by a client that knows nothing of who wrote them."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0)])
        end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, partition), timeout=20)[1]
        numbers: list[int] = []
        while len(numbers) < end:
            messages = consumer.consume(min(10_000, end - len(numbers)), 20)
            assert messages, f"only {len(numbers)} of {end} came"
            for message in messages:
                assert message.error() is None, message.error()
                numbers.append(int(message.value() or b""))
        return numbers
    finally:
        consumer.close()
