"""A consumer reads on from where it was sought to, whatever librdkafka still had to look up then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

import confluent_kafka
import pytest

from oncestream.messaging.consumer import Consumer
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from tests.client.kit import new_name, wait_until
from tests.messaging.kit import DEADLINE_S, new_topic

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
