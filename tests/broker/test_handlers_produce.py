"""Produce as any client can tell it, on the embedded broker and on Apache Kafka alike."""

from __future__ import annotations

import struct
import time

import pytest

from oncestream.records.batch import HEADER_SIZE, SEQUENCE_MAX, join_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.records.records import Record, build_batch
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.kit import (
    Wire,
    batch,
    create_topic,
    error_name,
    fetch,
    fetch_request,
    new_name,
    produce,
    produce_request,
    values_of,
)
from tests.conftest import Target

HOUR_MS = 3_600_000


def refusal(wire: Wire, topic: str, records: bytes | None, **options: int) -> str:
    """The name of the error a batch is refused with; it must not have been written."""
    end = fetch(wire, fetch_request(topic, 0)).high_watermark
    answer = produce(wire, topic, records, **options)
    assert fetch(wire, fetch_request(topic, 0)).high_watermark == end
    assert answer.base_offset == -1
    assert answer.log_append_time_ms == -1
    return error_name(answer.error_code)


@pytest.fixture
def topic(wire: Wire) -> str:
    return create_topic(wire).name or ""


def test_topics_go_by_name_up_to_version_12_and_by_id_from_13_on(wire: Wire) -> None:
    made = create_topic(wire)
    data = [PartitionProduceData(index=0, records=batch(b"x"))]
    for number, version in enumerate(range(3, 14)):
        topic = TopicProduceData(name=made.name or "", topic_id=made.topic_id, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        answer = wire.ask(request, version, ProduceResponse).responses[0]
        assert answer.partition_responses[0].error_code == 0
        assert answer.partition_responses[0].base_offset == number
        assert (answer.name, answer.topic_id) == ((made.name, bytes(16)), ("", made.topic_id))[version >= 13]


def test_an_unknown_topic_id_is_told(wire: Wire) -> None:
    data = [PartitionProduceData(index=0, records=batch(b"x"))]
    unknown = TopicProduceData(topic_id=bytes(range(16)), partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[unknown])
    answer = wire.ask(request, 13, ProduceResponse).responses[0]
    assert answer.topic_id == bytes(range(16))
    assert error_name(answer.partition_responses[0].error_code) == "UNKNOWN_TOPIC_ID"


def test_an_unknown_topic_or_partition_is_told(wire: Wire, topic: str) -> None:
    unknown = produce(wire, new_name(), batch(b"x"))
    assert error_name(unknown.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    for partition in (1, -1):
        answer = produce(wire, topic, batch(b"x"), partition=partition)
        assert error_name(answer.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_acks_other_than_minus_1_0_and_1_are_refused(wire: Wire, topic: str, acks: int) -> None:
    assert refusal(wire, topic, batch(b"x"), acks=acks) == "INVALID_REQUIRED_ACKS"


def test_a_damaged_batch_is_corrupt(wire: Wire, topic: str) -> None:
    good = batch(b"some value", b"another")
    for position in (17, 21, 30, 43, HEADER_SIZE, len(good) - 1):
        damaged = bytearray(good)
        damaged[position] ^= 1
        assert refusal(wire, topic, bytes(damaged)) == "CORRUPT_MESSAGE", position


def test_a_batch_whose_length_is_too_short_is_corrupt(wire: Wire, topic: str) -> None:
    good = batch(b"some value")
    assert refusal(wire, topic, good[:8] + struct.pack(">i", 10) + good[12:]) == "CORRUPT_MESSAGE"


def test_a_batch_whose_length_goes_beyond_what_came_is_corrupt(embedded: Target) -> None:
    """Apache Kafka says INVALID_RECORD here, since it finds no whole batch; both make the producer give up."""
    with Wire(embedded.bootstrap_servers) as wire:
        topic, good = create_topic(wire).name or "", batch(b"some value")
        for more in (1, 1000, 2**30):
            lying = good[:8] + struct.pack(">i", len(good) - 12 + more) + good[12:]
            assert refusal(wire, topic, lying) == "CORRUPT_MESSAGE"


def test_no_batch_or_two_batches_are_refused(wire: Wire, topic: str) -> None:
    assert refusal(wire, topic, batch(b"one") + batch(b"two")) == "INVALID_RECORD"
    assert refusal(wire, topic, b"") == "INVALID_RECORD"


@pytest.mark.parametrize("magic", [0, 1])
def test_message_formats_before_2_are_refused(wire: Wire, topic: str, magic: int) -> None:
    old = batch(b"some value")
    assert refusal(wire, topic, old[:16] + bytes([magic]) + old[17:]) == "INVALID_RECORD"


def test_a_client_may_not_write_control_records(wire: Wire, topic: str) -> None:
    good = batch(b"x")
    header = parse_header(good)
    control = join_batch(header._replace(attributes=0x20), good[HEADER_SIZE:])
    assert refusal(wire, topic, bytes(control)) == "INVALID_RECORD"


@pytest.mark.parametrize(
    "changes", [{"count": 2}, {"count": 0}, {"last_offset_delta": 4}, {"base_sequence": -1, "producer_id": 5}]
)
def test_a_header_that_cannot_be_is_refused(wire: Wire, topic: str, changes: dict[str, int]) -> None:
    good = batch(b"x")
    lying = join_batch(parse_header(good)._replace(**changes), good[HEADER_SIZE:])
    assert refusal(wire, topic, bytes(lying)) == "INVALID_RECORD"


def test_a_batch_above_the_topics_maximum_is_too_large(wire: Wire) -> None:
    topic = create_topic(wire, configs={"max.message.bytes": "1000"}).name or ""
    overhead = len(batch(b"x" * 900)) - 900
    assert refusal(wire, topic, batch(b"x" * (1001 - overhead))) == "MESSAGE_TOO_LARGE"
    assert produce(wire, topic, batch(b"x" * (1000 - overhead))).base_offset == 0


def test_a_batch_above_the_segment_size_is_too_large(wire: Wire) -> None:
    configs = {"max.message.bytes": "3000000", "segment.bytes": "1048576"}
    topic = create_topic(wire, configs=configs).name or ""
    assert refusal(wire, topic, batch(b"x" * 1_100_000)) == "RECORD_LIST_TOO_LARGE"


def test_a_timestamp_too_far_ahead_is_refused(wire: Wire, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert refusal(wire, topic, batch(b"x", timestamp_ms=now_ms + 2 * HOUR_MS)) == "INVALID_TIMESTAMP"
    assert produce(wire, topic, batch(b"x", timestamp_ms=now_ms + HOUR_MS // 2)).error_code == 0
    assert produce(wire, topic, batch(b"x", timestamp_ms=1)).error_code == 0


def test_a_timestamp_too_far_back_is_refused_where_the_topic_says_so(wire: Wire) -> None:
    topic = create_topic(wire, configs={"message.timestamp.before.max.ms": "1000"}).name or ""
    now_ms = time.time_ns() // 1_000_000
    assert refusal(wire, topic, batch(b"x", timestamp_ms=now_ms - HOUR_MS)) == "INVALID_TIMESTAMP"


def test_log_append_time_is_told_and_written(wire: Wire) -> None:
    topic = create_topic(wire, configs={"message.timestamp.type": "LogAppendTime"}).name or ""
    before_ms = time.time_ns() // 1_000_000
    answer = produce(wire, topic, batch(b"x", timestamp_ms=17))
    assert before_ms <= answer.log_append_time_ms <= time.time_ns() // 1_000_000
    header = parse_header(bytes(fetch(wire, fetch_request(topic)).records or b""))
    assert header.log_append_time
    assert header.max_timestamp == answer.log_append_time_ms
    assert header.base_timestamp == 17


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(wire: Wire) -> None:
    topic = create_topic(wire, configs={"cleanup.policy": "compact"}).name or ""
    assert refusal(wire, topic, batch(b"x", key=None)) == "INVALID_RECORD"
    assert produce(wire, topic, batch(b"x")).base_offset == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    ("configs", "error", "places"),
    [
        ({"cleanup.policy": "compact"}, "INVALID_TIMESTAMP", [1, 3, 4]),
        ({}, "INVALID_TIMESTAMP", [4]),
        ({"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}, "INVALID_RECORD", [1, 3]),
    ],
    ids=["compacted", "plain", "compacted-append-time"],
)
def test_the_records_for_which_a_batch_is_refused_are_told(
    wire: Wire, configs: dict[str, str], error: str, places: list[int], codec: Codec
) -> None:
    topic = create_topic(wire, configs=configs).name or ""
    now_ms = time.time_ns() // 1_000_000
    keys = [b"k", None, b"k", None, b"k"]
    records = [
        Record(place, now_ms + 2 * HOUR_MS * (place == 4), key, b"x") for place, key in enumerate(keys)
    ]
    answer = produce(wire, topic, bytes(build_batch(records, codec=codec)))
    assert error_name(answer.error_code) == error
    assert answer.error_message
    assert [record.batch_index for record in answer.record_errors] == places
    assert all(record.batch_index_error_message for record in answer.record_errors)


def test_one_bad_partition_does_not_hold_up_the_others(wire: Wire) -> None:
    topic = create_topic(wire, partitions=2).name or ""
    damaged = batch(b"bad")[:-1] + b"?"
    request = produce_request(topic, damaged)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch(b"good")))
    answers = wire.ask(request, 12, ProduceResponse).responses[0].partition_responses
    assert {answer.index: answer.error_code == 0 for answer in answers} == {0: False, 1: True}


# -- idempotent producers -----------------------------------------------------------------------


def test_a_resent_batch_answers_its_first_offset_for_the_last_five_batches(wire: Wire, topic: str) -> None:
    batches = [batch(b"%d" % n, producer_id=100_001, sequence=n) for n in range(7)]
    assert [produce(wire, topic, one).base_offset for one in batches] == list(range(7))
    assert [produce(wire, topic, one).base_offset for one in batches[2:]] == list(range(2, 7))
    assert refusal(wire, topic, batches[1]) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert len(values_of(fetch(wire, fetch_request(topic)).records)) == 7


def test_a_gap_in_the_sequence_is_refused(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", producer_id=100_002))
    ahead = batch(b"d", producer_id=100_002, sequence=3)
    assert refusal(wire, topic, ahead) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    overlapping = batch(b"b", b"c", b"d", producer_id=100_002, sequence=1)
    assert refusal(wire, topic, overlapping) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(wire, topic, batch(b"c", producer_id=100_002, sequence=2)).base_offset == 2


def test_an_unknown_producer_may_start_at_any_sequence(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"x", producer_id=100_003, sequence=55)).base_offset == 0
    assert produce(wire, topic, batch(b"x", producer_id=100_003, sequence=56)).base_offset == 1


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_0(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", producer_id=100_004, epoch=3, sequence=0))
    old = batch(b"b", producer_id=100_004, epoch=2, sequence=1)
    assert refusal(wire, topic, old) == "INVALID_PRODUCER_EPOCH"
    not_0 = batch(b"b", producer_id=100_004, epoch=4, sequence=1)
    assert refusal(wire, topic, not_0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(wire, topic, batch(b"b", producer_id=100_004, epoch=4, sequence=0)).base_offset == 1


def test_sequences_wrap_to_0(wire: Wire, topic: str) -> None:
    over = batch(b"a", b"b", b"c", producer_id=100_005, sequence=SEQUENCE_MAX - 1)
    assert produce(wire, topic, over).base_offset == 0
    assert produce(wire, topic, batch(b"d", producer_id=100_005, sequence=1)).base_offset == 3
    assert produce(wire, topic, over).base_offset == 0
    assert (
        refusal(wire, topic, batch(b"x", producer_id=100_005, sequence=0)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    )


def test_producers_and_partitions_do_not_disturb_each_other(wire: Wire) -> None:
    topic = create_topic(wire, partitions=2).name or ""
    for producer_id in (100_006, 100_007):
        for partition in (0, 1):
            one = batch(b"x", producer_id=producer_id)
            assert produce(wire, topic, one, partition=partition).base_offset == producer_id - 100_006
