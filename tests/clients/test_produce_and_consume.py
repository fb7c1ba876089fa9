"""What a real client produces, a real client consumes, on the embedded broker and on Apache Kafka alike."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.aio import Aiokafka
from tests.clients.client import Client, Message, Received, RefusedError
from tests.clients.confluent import Confluent
from tests.clients.conftest import NewTopic, wait_until

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
MESSAGE_TOO_LARGE = 10
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87
UNKNOWN_TO_AIOKAFKA = -1
HOUR_MS = 3_600_000

SAMPLE = [
    Message(b"plain"),
    Message(b"with a key", key=b"key"),
    Message(b"", key=b"empty value"),
    Message(b"empty key", key=b""),
    Message(None, key=b"tombstone"),
    Message(b"headers", headers=(("a", b"1"), ("a", b"again"), ("empty", b""), ("ü", b"\xff"))),
    Message(bytes(range(256)) * 40, key=bytes(range(256))),
]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_they_were_sent(client: Client, new_topic: NewTopic, compression: str) -> None:
    topic = new_topic()
    offsets = client.produce(topic, SAMPLE, compression=compression)
    assert offsets == list(range(len(SAMPLE)))
    received = client.consume(topic, {0: 0}, len(SAMPLE))
    assert [content(record) for record in received] == [content(message) for message in SAMPLE]
    assert [record.offset for record in received] == offsets


@pytest.mark.slow
def test_a_client_reads_what_every_client_wrote_in_every_compression(
    client: Client, clients: list[Client], new_topic: NewTopic
) -> None:
    topic = new_topic()
    for producer in clients:
        for compression in COMPRESSIONS:
            producer.produce(topic, SAMPLE, compression=compression)
    rounds = len(clients) * len(COMPRESSIONS)
    received = client.consume(topic, {0: 0}, rounds * len(SAMPLE))
    assert [content(record) for record in received] == rounds * [content(message) for message in SAMPLE]


def test_a_header_may_have_no_value(client: Client, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = (("none", None), ("empty", b""))
    Confluent(bootstrap).produce(topic, [Message(b"x", headers=headers)])  # kafka-python sends none such
    assert [r.headers for r in client.consume(topic, {0: 0}, 1)] == [headers]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_record_of_900_kb_comes_back_whole(client: Client, new_topic: NewTopic, compression: str) -> None:
    topic = new_topic()
    value = random.Random(1).randbytes(900_000)
    client.produce(topic, [Message(b"before"), Message(value), Message(b"after")], compression=compression)
    assert [r.value for r in client.consume(topic, {0: 0}, 3)] == [b"before", value, b"after"]


def test_explicit_timestamps_are_kept(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="-1")
    now_ms = int(time.time() * 1000)
    stamps = [now_ms - HOUR_MS, 1_000_000_000_000, now_ms, 1]
    client.produce(topic, [Message(b"x", timestamp_ms=stamp) for stamp in stamps])
    assert [r.timestamp_ms for r in client.consume(topic, {0: 0}, len(stamps))] == stamps


def test_the_broker_sets_the_timestamp_on_a_topic_of_log_append_time(
    client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    client.produce(topic, [Message(b"x", timestamp_ms=1), Message(b"y", timestamp_ms=2)], compression="gzip")
    after_ms = int(time.time() * 1000)
    first_ms, second_ms = (record.timestamp_ms for record in client.consume(topic, {0: 0}, 2))
    assert before_ms <= first_ms <= second_ms <= after_ms


def test_every_partition_keeps_its_own_order(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    messages = [Message(b"%d" % number, partition=number % 3) for number in range(300)]
    client.produce(topic, messages)
    values: dict[int, list[bytes | None]] = defaultdict(list)
    for record in client.consume(topic, {0: 0, 1: 0, 2: 0}, 300):
        values[record.partition].append(record.value)
    assert values == {p: [b"%d" % number for number in range(p, 300, 3)] for p in range(3)}


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_without_idempotence_gets_its_offsets(
    client: Client, new_topic: NewTopic, acks: int
) -> None:
    topic = new_topic()
    assert client.produce(topic, [Message(b"a"), Message(b"b")], acks=acks, idempotent=False) == [0, 1]
    assert [r.value for r in client.consume(topic, {0: 0}, 2)] == [b"a", b"b"]


def test_records_sent_with_acks_0_arrive_though_nothing_is_answered(
    client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"a"), Message(b"b")], acks=0, idempotent=False)
    assert [r.value for r in client.consume(topic, {0: 0}, 2)] == [b"a", b"b"]


def test_reading_starts_inside_a_batch_where_asked(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"%d" % number) for number in range(50)], compression="lz4")
    received = client.consume(topic, {0: 37}, 13)
    assert [(r.offset, r.value) for r in received] == [(n, b"%d" % n) for n in range(37, 50)]


def test_a_position_out_of_range_is_reset_as_the_client_was_told(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"first")])
    assert [r.offset for r in client.consume(topic, {0: 999}, 1)] == [0]


def test_a_reader_at_the_end_gets_what_is_produced_later(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    client.produce(topic, [Message(b"old")])
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.consume, topic, {0: 1}, 1)
        client.produce(topic, [Message(b"new")])
        assert [r.value for r in waiting.result()] == [b"new"]


def test_a_record_above_the_limit_is_refused(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(RefusedError) as refused:
        client.produce(topic, [Message(random.Random(1).randbytes(1_100_000))])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert client.produce(topic, [Message(b"small")]) == [0]


def test_a_topic_may_have_a_limit_of_its_own(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="2000")
    assert client.produce(topic, [Message(b"x" * 1500)]) == [0]
    with pytest.raises(RefusedError) as refused:
        client.produce(topic, [Message(b"x" * 2500)])
    assert refused.value.code == MESSAGE_TOO_LARGE


def test_a_timestamp_far_in_the_future_is_refused(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic()
    future_ms = int(time.time() * 1000) + 24 * HOUR_MS
    with pytest.raises(RefusedError) as refused:
        client.produce(topic, [Message(b"x", timestamp_ms=future_ms)])
    assert refused.value.code == INVALID_TIMESTAMP


def test_a_compacted_topic_refuses_a_record_without_key(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    assert client.produce(topic, [Message(b"x", key=b"k")]) == [0]
    with pytest.raises(RefusedError) as refused:
        client.produce(topic, [Message(b"no key")])
    assert refused.value.code == (UNKNOWN_TO_AIOKAFKA if isinstance(client, Aiokafka) else INVALID_RECORD)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_topic_with_a_compression_of_its_own_takes_every_other(
    client: Client, new_topic: NewTopic, compression: str
) -> None:
    topic = new_topic(compression_type="zstd")
    client.produce(topic, SAMPLE, compression=compression)
    received = client.consume(topic, {0: 0}, len(SAMPLE))
    assert [content(record) for record in received] == [content(message) for message in SAMPLE]


def test_producing_to_an_unknown_topic_creates_it(client: Client, unused_topic: str) -> None:
    assert client.produce(unused_topic, [Message(b"x")]) == [0]
    wait_until(lambda: client.topics().get(unused_topic) == 1)
    assert [r.value for r in client.consume(unused_topic, {0: 0}, 1)] == [b"x"]


def content(record: Message | Received) -> tuple[object, ...]:
    return record.key, record.value, record.headers
