"""Producers without transactions on a way that loses requests and answers: every record is there once, in order."""

from __future__ import annotations

from typing import Final

from oncestream.cli.produce_input import Message
from oncestream.cli.sending import Sender
from oncestream.client.settings import ClientSettings
from oncestream.messaging.producer import Producer
from oncestream.testing.network_faults import Rule, Trouble
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from tests.messaging.kit import new_topic, read_all

PARTITIONS: Final = 4
RECORDS: Final = 400
QUICK: Final = {
    "batch.num.messages": 1,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
}
# A request fails while the next ones are on the way, then one is done and its answer lost: librdkafka with its
# defaults writes some twice then.
RULES: Final = [
    rule
    for skip in range(5, 300, 12)
    for rule in (
        Rule(Trouble.FAIL, ApiKey.PRODUCE, skip=skip, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Rule(Trouble.CUT_AFTER, ApiKey.PRODUCE, skip=skip + 4),
    )
]


def test_a_producer_writes_every_record_once(bootstrap: str) -> None:
    topic = new_topic(bootstrap, PARTITIONS)
    with FaultProxy(bootstrap) as proxy:
        faults = proxy.add_all(RULES)
        with Producer(proxy.bootstrap_servers, settings=QUICK) as producer:
            for number in range(RECORDS):
                producer.send(topic, str(number), partition=number % PARTITIONS)
        assert sum(fault.hits for fault in faults) == len(RULES)
    assert_once_and_in_order(bootstrap, topic)


def test_produce_writes_every_line_once(bootstrap: str) -> None:
    topic = new_topic(bootstrap, PARTITIONS)
    with FaultProxy(bootstrap) as proxy:
        faults = proxy.add_all(RULES)
        options = {"acks": "all", "enable.idempotence": True, **QUICK}
        with Sender(ClientSettings.of(proxy.bootstrap_servers), options, None, "unused", 60_000) as sender:
            for number in range(RECORDS):
                sender.send(Message(str(number).encode(), topic=topic, partition=number % PARTITIONS))
        assert sum(fault.hits for fault in faults) == len(RULES)
    assert_once_and_in_order(bootstrap, topic)


def assert_once_and_in_order(bootstrap: str, topic: str) -> None:
    written: dict[int, list[int]] = {}
    for record in read_all(bootstrap, topic, RECORDS):
        written.setdefault(record.partition, []).append(int(record.value or b""))
    assert written == {number: list(range(number, RECORDS, PARTITIONS)) for number in range(PARTITIONS)}
