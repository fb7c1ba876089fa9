"""Producer: what is sent arrives, once and in order; what does not arrive is told."""

from __future__ import annotations

from typing import Any

import pytest

from oncestream.errors import (
    BadSetting,
    BadStreamName,
    BrokerUnreachable,
    BufferFull,
    CannotSerialize,
    ClientMisused,
    DeliveryFailed,
    OncestreamError,
    RequestRefused,
    RequestTimedOut,
    UnknownTopic,
)
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.producer import Producer
from oncestream.messaging.record import Delivery
from oncestream.messaging.serializers import to_json
from oncestream.records.murmur2 import key_hash
from tests.client.kit import new_name
from tests.messaging.kit import new_topic, read_all, values

NOWHERE = "127.0.0.1:1"


def test_a_record_arrives_with_all_that_was_given(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 3)
    with Producer(bootstrap) as producer:
        producer.send(topic, "v", key=b"k", partition=2, headers={"a": "1", "b": None}, timestamp_ms=5_000)
    (record,) = read_all(bootstrap, topic, 1)
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == (topic, 2, 0, 5_000)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"1"), ("b", None)))
    assert record.header("a") == b"1"
    assert record.header("none") is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("ä", "ä".encode()),
        (b"\x00", b"\x00"),
        ({"a": [1, "ö"]}, '{"a": [1, "ö"]}'.encode()),
        ([], b"[]"),
        (None, None),
    ],
)
def test_str_bytes_and_json_are_written_by_themselves(
    embedded: Any, value: Any, written: bytes | None
) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(embedded.bootstrap_servers) as producer:
        producer.send(topic, value, key="k")
    assert [record.value for record in read_all(embedded.bootstrap_servers, topic, 1)] == [written]


def test_what_cannot_be_written_is_refused_at_once(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(embedded.bootstrap_servers) as producer:
        with pytest.raises(
            CannotSerialize, match=f"the value for {topic} cannot be written: it is of type float"
        ):
            producer.send(topic, 1.5)
        with pytest.raises(CannotSerialize, match="the key"):
            producer.send(topic, "v", key=object())
        with pytest.raises(CannotSerialize, match="set"):
            producer.send(topic, {"a": {1}})
    assert read_all(embedded.bootstrap_servers, topic, 0) == []


def test_a_serializer_of_ones_own(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(
        embedded.bootstrap_servers, serializer=to_json, key_serializer=lambda n: b"%d" % n
    ) as producer:
        producer.send(topic, 1.5, key=7)
    (record,) = read_all(embedded.bootstrap_servers, topic, 1)
    assert (record.key, record.value) == (b"7", b"1.5")


def test_records_of_a_partition_keep_their_order(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    with Producer(bootstrap, compression="lz4", flush_ms=1) as producer:
        for number in range(5_000):
            producer.send(topic, str(number))
    assert values(read_all(bootstrap, topic, 5_000)) == [str(number) for number in range(5_000)]


def test_a_key_goes_where_javas_producer_sends_it(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 5)
    for name in (None, new_name("producer")):
        with Producer(bootstrap, name=name) as producer:
            for number in range(50):
                producer.send(topic, "v", key=f"key-{number}")
    found = {(record.key, record.partition) for record in read_all(bootstrap, topic, 100)}
    assert found == {(key, key_hash(key) % 5) for key in (b"key-%d" % number for number in range(50))}


def test_a_partitioner_chooses(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers, 4)
    with Producer(
        embedded.bootstrap_servers, partitioner=lambda key, value, partitions: int(value or b"0") % partitions
    ) as producer:
        for number in range(8):
            producer.send(topic, str(number))
    found = {(record.value, record.partition) for record in read_all(embedded.bootstrap_servers, topic, 8)}
    assert found == {(b"%d" % number, number % 4) for number in range(8)}


def test_a_partitioner_that_chooses_what_is_not_there_is_told(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with (
        Producer(embedded.bootstrap_servers, partitioner=lambda *_: 9) as producer,
        pytest.raises(ClientMisused, match="chose partition 9, there are 1"),
    ):
        producer.send(topic, "v")


def test_on_delivery_is_told_where_a_record_is(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 2)
    told: list[Delivery] = []
    with Producer(bootstrap) as producer:
        for _ in range(3):
            producer.send(topic, "v", partition=1, on_delivery=told.append)
    assert told == [Delivery(topic, 1, offset) for offset in range(3)]


def test_a_failed_delivery_is_raised_by_the_next_call(bootstrap: str) -> None:
    topic = new_topic(bootstrap, cleanup_policy="compact")  # takes no record without a key
    producer = Producer(bootstrap)
    producer.send(topic, "no key")
    with pytest.raises(
        DeliveryFailed, match=f"a record for {topic} .partition 0. was not delivered: .*INVALID_RECORD"
    ):
        producer.flush()
    producer.flush()  # told once
    producer.send(topic, "a key", key="k")
    producer.close()
    assert values(read_all(bootstrap, topic, 1)) == ["a key"]


def test_a_failed_delivery_is_raised_at_the_end_of_with(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers, cleanup_policy="compact")
    with pytest.raises(DeliveryFailed), Producer(embedded.bootstrap_servers) as producer:
        producer.send(topic, "no key")


def test_a_failed_delivery_never_hides_the_programs_own_error(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers, cleanup_policy="compact")
    with pytest.raises(KeyError) as caught, Producer(embedded.bootstrap_servers) as producer:  # noqa: PT012
        producer.send(topic, "no key")
        raise KeyError("mine")
    assert "was not delivered" in caught.value.__notes__[0]


def test_a_failed_delivery_that_on_delivery_took_is_not_raised(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers, cleanup_policy="compact")
    told: list[Delivery] = []
    with Producer(embedded.bootstrap_servers) as producer:
        producer.send(topic, "no key", on_delivery=told.append)
    assert isinstance(told[0].error, DeliveryFailed)
    assert told[0].topic == topic


def test_a_record_that_is_too_large_is_refused_at_once(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with (
        Producer(embedded.bootstrap_servers) as producer,
        pytest.raises(RequestRefused, match="MSG_SIZE_TOO_LARGE"),
    ):
        producer.send(topic, b"x" * 2_000_000)


def test_a_full_buffer_makes_send_wait_and_loses_nothing(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(embedded.bootstrap_servers, buffer_bytes_max=20_000) as producer:
        for number in range(500):
            producer.send(topic, f"{number:01000}")
    assert [int(value) for value in values(read_all(embedded.bootstrap_servers, topic, 500))] == list(
        range(500)
    )


def test_a_buffer_that_stays_full_is_an_error(tmp_path: Any) -> None:
    from oncestream import Broker

    broker = Broker(tmp_path, process=True).start()
    producer = Producer(broker.bootstrap_servers, buffer_bytes_max=20_000, send_timeout_s=0.5)
    producer.send("topic", "there")
    producer.flush()
    broker.kill()
    with pytest.raises(BufferFull, match=r"20000 bytes stayed full for 0\.5 s"):  # noqa: PT012
        for _ in range(100):
            producer.send("topic", b"x" * 1000)
    with pytest.raises(RequestTimedOut, match="records wait"):
        producer.flush(0.1)


def test_a_topic_may_be_made_by_the_broker_on_first_use(bootstrap: str) -> None:
    topic = new_name("auto")
    with Producer(bootstrap) as producer:
        producer.send(topic, "v")
    assert values(read_all(bootstrap, topic, 1)) == ["v"]


def test_a_topic_that_is_not_there_and_not_made_is_an_error(tmp_path: Any) -> None:
    from oncestream import Broker

    with (
        Broker(tmp_path, auto_create_topics=False) as broker,
        Producer(broker.bootstrap_servers, send_timeout_s=0.5) as producer,
        pytest.raises(UnknownTopic, match="there is no topic or partition missing"),
    ):
        producer.send("missing", "v")


def test_a_partition_that_is_not_there_is_an_error(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with pytest.raises(OncestreamError, match=topic), Producer(embedded.bootstrap_servers) as producer:
        producer.send(topic, "v", partition=7)


@pytest.mark.parametrize(
    "topic", ["", "a b", "/apps", "/apps/pump:", "/a//b:c", "x" * 250, "..", "/../etc:passwd"]
)
def test_a_bad_name_of_a_topic_is_refused(embedded: Any, topic: str) -> None:
    with Producer(embedded.bootstrap_servers) as producer, pytest.raises(BadStreamName):
        producer.send(topic, "v")


def test_a_broker_that_is_not_there_is_an_error() -> None:
    producer = Producer(NOWHERE, send_timeout_s=0.5)
    with pytest.raises((BrokerUnreachable, RequestTimedOut)):
        producer.send("topic", "v")


def test_what_is_not_ordered_is_not_idempotent_and_needs_no_name(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(embedded.bootstrap_servers, ordered=False) as producer:
        for number in range(100):
            producer.send(topic, str(number))
    assert {int(value) for value in values(read_all(embedded.bootstrap_servers, topic, 100))} == set(
        range(100)
    )
    with pytest.raises(BadSetting, match="always keeps the order"):
        Producer(embedded.bootstrap_servers, ordered=False, name="n")


def test_settings_go_to_librdkafka_and_wrong_ones_are_told() -> None:
    with pytest.raises(BadSetting, match=r"setting no\.such from settings= is wrong"):
        Producer(NOWHERE, settings={"no.such": 1})
    with pytest.raises(BadSetting, match="the parameter flush_ms says that"):
        Producer(NOWHERE, settings={"linger.ms": 1})
    with pytest.raises(BadSetting, match="compression"):
        Producer(NOWHERE, compression="rar")


def test_secrets_are_shown_nowhere() -> None:
    secrets = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    producer = Producer(NOWHERE, settings={**secrets, "sasl.password": "hush"}, send_timeout_s=0.5)
    assert "hush" not in repr(producer)
    with pytest.raises(OncestreamError) as caught:
        producer.send("topic", "v")
    assert "hush" not in str(caught.value)
    with pytest.raises(BadSetting) as refused:
        Producer(NOWHERE, settings={"security.protocol": "hush", "sasl.password": "hush"})
    assert "hush" not in str(refused.value)


def test_a_closed_producer_says_so(embedded: Any) -> None:
    producer = Producer(embedded.bootstrap_servers)
    producer.close()
    producer.close()
    with pytest.raises(ClientMisused, match="closed"):
        producer.send("topic", "v")


@pytest.mark.parametrize(
    ("client", "wrong", "near"), [(Producer, "serialiser", "serializer"), (Consumer, "comit", "commit")]
)
def test_a_misspelt_parameter_is_refused_with_the_nearest(client: Any, wrong: str, near: str) -> None:
    given = {wrong: None, "bootstrap_servers": NOWHERE} | ({"group": "g"} if client is Consumer else {})
    with pytest.raises(BadSetting, match=rf"{wrong} .*there is no such parameter \(did you mean {near}\?\)"):
        client(*(["t"] if client is Consumer else []), **given)
