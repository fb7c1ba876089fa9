"""A consumer reads on from where it was sought to, whatever librdkafka still had to look up then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import confluent_kafka
import pytest

from oncestream.messaging.consumer import Consumer
from oncestream.messaging.starts import with_starts
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from tests.client.kit import new_name, wait_until
from tests.messaging.kit import DEADLINE_S, new_topic

TIMED_OUT = confluent_kafka.KafkaError._TIMED_OUT
RECORDS = 600
SOUGHT = 200
AT_ONCE = 10  # little enough that not all has been fetched when librdkafka looks up once more
LOOKUP_S = 0.3
WATCHED_S = 2.0  # librdkafka looks up once more half a second after an answer that came too late


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[FaultProxy]:
    with FaultProxy(bootstrap) as proxy:
        yield proxy


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = new_topic(bootstrap)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "batch.num.messages": AT_ONCE})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(60) == 0
    return name


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_seek_before_the_start_was_found_holds(
    proxy: FaultProxy, topic: str, start: Literal["earliest", "latest"], protocol: str
) -> None:
    lookup = proxy.delay_answer(ApiKey.LIST_OFFSETS, LOOKUP_S)
    with Consumer(
        topic,
        group=new_name("group"),
        bootstrap_servers=proxy.bootstrap_servers,
        start=start,
        poll_records_max=AT_ONCE,
        settings={
            "group.protocol": protocol,
            "queued.min.messages": AT_ONCE,
            "fetch.message.max.bytes": 500,
            "fetch.queue.backoff.ms": 10,
        },
    ) as consumer:
        wait_until(lambda: bool(consumer.poll(0.02) or consumer.assignment()))
        lookup.wait()
        consumer.seek(topic, 0, SOUGHT)
        offsets: list[int] = []
        begun = time.monotonic()
        while (spent_s := time.monotonic() - begun) < DEADLINE_S:
            offsets += [record.offset for record in consumer.poll(0.1)]
            if spent_s > WATCHED_S and len(offsets) >= RECORDS - SOUGHT:
                break
            time.sleep(0.03)
    assert offsets == list(range(SOUGHT, RECORDS))


class Lookups:
    """Answers as a client of librdkafka does; None: with an error."""

    def __init__(self, committed: dict[int, int | None], ends: dict[int, int | None] | None) -> None:
        self._committed, self._ends = committed, ends

    def committed(self, partitions: list[Place], timeout_s: float) -> list[Place]:
        return [_told(each, self._committed[each.partition]) for each in partitions]

    def offsets_for_times(self, partitions: list[Place], timeout_s: float) -> list[Place]:
        if self._ends is None:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(TIMED_OUT))
        assert {each.offset for each in partitions} == {confluent_kafka.OFFSET_BEGINNING}
        return [_told(each, self._ends[each.partition]) for each in partitions]


@dataclass
class Place:
    topic: str
    partition: int
    offset: int = confluent_kafka.OFFSET_INVALID
    error: confluent_kafka.KafkaError | None = None


def _told(place: Place, offset: int | None) -> Place:
    if offset is None:
        error = confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT)
        return replace(place, offset=confluent_kafka.OFFSET_INVALID, error=error)
    return replace(place, offset=offset)


def starts(client: Lookups, *partitions: Place) -> list[int]:
    return [each.offset for each in with_starts(client, partitions, latest=False)]


def test_only_what_has_no_offset_is_looked_up_and_the_order_is_kept() -> None:
    nothing = confluent_kafka.OFFSET_INVALID
    client = Lookups({0: nothing, 2: 17}, {0: 5})
    assert starts(client, Place("t", 0), Place("t", 1, 300), Place("t", 2)) == [5, 300, 17]
    assert starts(Lookups({}, None), Place("t", 1, 300)) == [300]


def test_what_cannot_be_found_out_is_left_to_librdkafka() -> None:
    nothing = confluent_kafka.OFFSET_INVALID
    assert starts(Lookups({0: None, 1: 17}, {}), Place("t", 0), Place("t", 1)) == [nothing, 17]
    assert starts(Lookups({0: nothing, 1: 17}, None), Place("t", 0), Place("t", 1)) == [nothing, nothing]
    logical = confluent_kafka.OFFSET_BEGINNING
    assert starts(Lookups({0: nothing}, {0: None}), Place("t", 0)) == [logical]
