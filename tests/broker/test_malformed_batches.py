"""Batches with a right checksum and wrong records, sent by a client to the embedded broker and to Apache Kafka."""

from __future__ import annotations

import tracemalloc

import cramjam
import pytest

from oncestream.records.batch import LOG_APPEND_TIME, parse_header
from oncestream.records.compression import Codec, compress
from oncestream.storage.validation import INFLATED_BYTES_MAX
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import Wire, create_topic, error_name, fetch, fetch_request, produce
from tests.conftest import Target
from tests.records.malformed import (
    ACCEPTED_COMPRESSED_BY_KAFKA,
    DAMAGED,
    MALFORMED,
    MISNUMBERED,
    NEGATIVE,
    WELL_FORMED,
    batch_of,
    record,
    varint,
)

HOUR_MS = 3_600_000


class Sender:
    """Sends batches to one topic; what was refused must not be there."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._topic = create_topic(wire).name or ""
        self.end_offset = 0

    def send(self, batch: bytes, count: int) -> str:
        answer = produce(self._wire, self._topic, batch)
        if answer.error_code == 0:
            assert answer.base_offset == self.end_offset
            self.end_offset += count
        assert fetch(self._wire, fetch_request(self._topic)).high_watermark == self.end_offset
        return error_name(answer.error_code)

    def last(self) -> bytes:
        return bytes(fetch(self._wire, fetch_request(self._topic, self.end_offset - 1)).records or b"")


@pytest.fixture
def sender(wire: Wire) -> Sender:
    return Sender(wire)


def test_what_its_header_does_not_hold_is_refused_whole(sender: Sender, target: Target) -> None:
    """Apache Kafka stumbles over a few of them, and looks less closely where the records are compressed."""
    wrong = {}
    for name, (payload, count) in MALFORMED.items():
        for codec in Codec:
            told = sender.send(batch_of(payload, count, codec=codec), count)
            if target.is_apache and codec and name in ACCEPTED_COMPRESSED_BY_KAFKA:
                assert told == "NONE"
            elif target.is_apache and told == "UNKNOWN_SERVER_ERROR":
                assert name in ("garbage", "a length of six bytes")
            elif told != "INVALID_RECORD":
                wrong[name, codec.name] = told
    assert not wrong


def test_records_that_do_not_count_from_zero_are_refused(sender: Sender, target: Target) -> None:
    """Apache Kafka takes them uncompressed, and its consumers see an offset twice, or one that is not there."""
    for payload, count in MISNUMBERED.values():
        for codec in Codec:
            told = sender.send(batch_of(payload, count, codec=codec), count)
            assert told == "INVALID_RECORD" or (target.is_apache and told in ("NONE", "UNKNOWN_SERVER_ERROR"))


def test_what_librdkafka_never_gets_past_is_refused(sender: Sender, target: Target) -> None:
    for payload, count in NEGATIVE.values():
        for codec in Codec:
            told = sender.send(batch_of(payload, count, codec=codec), count)
            assert told == ("NONE" if target.is_apache else "INVALID_RECORD")


def test_what_is_unusual_and_well_formed_is_taken(sender: Sender) -> None:
    for name, (payload, count) in WELL_FORMED.items():
        for codec in Codec:
            assert sender.send(batch_of(payload, count, codec=codec), count) == "NONE", name


def test_what_cannot_be_decompressed_is_refused(sender: Sender, target: Target) -> None:
    """By Apache Kafka with an error that it did not foresee."""
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        for damage in DAMAGED:
            batch = batch_of(damage(compress(codec, record())), 1, codec=codec, is_compressed=True)
            told = sender.send(batch, 1)
            assert told == "INVALID_RECORD" or (target.is_apache and told == "UNKNOWN_SERVER_ERROR")


def test_lz4_that_a_java_consumer_does_not_read_is_refused(sender: Sender, target: Target) -> None:
    large = record(value=varint(300_000) + bytes(range(250)) * 1200)

    def frame(*, linked: bool, checksum: bool) -> bytes:
        compressor = cramjam.lz4.Compressor(block_linked=linked, content_checksum=checksum)
        compressor.compress(large)
        return bytes(compressor.finish())

    def send(compressed: bytes, count: int) -> str:
        return sender.send(batch_of(compressed, count, codec=Codec.LZ4, is_compressed=True), count)

    for checksum in (True, False):
        assert send(frame(linked=False, checksum=checksum), 1) == "NONE"
        told = send(frame(linked=True, checksum=checksum), 1)
        assert told == "INVALID_RECORD" or (target.is_apache and told == "UNKNOWN_SERVER_ERROR")
    two_frames = compress(Codec.LZ4, record(0)) + compress(Codec.LZ4, record(1))
    assert send(two_frames, 2) == "INVALID_RECORD"


def test_the_largest_timestamp_is_that_of_the_records_whatever_the_header_says(sender: Sender) -> None:
    now_ms = parse_header(batch_of(record(), 1)).base_timestamp
    payload = record(0, time=varint(-5)) + record(1, time=varint(7)) + record(2, time=varint(-9))
    for codec in Codec:
        for said in (now_ms + 100 * HOUR_MS, 5, -1):
            batch = batch_of(payload, 3, codec=codec, timestamp_ms=now_ms, max_timestamp_ms=said)
            assert sender.send(batch, 3) == "NONE"
            assert parse_header(sender.last()).max_timestamp == now_ms + 7
    for distance, told in (
        (2 * HOUR_MS, "INVALID_TIMESTAMP"),
        (2**63 - 1, "INVALID_TIMESTAMP"),
        (-now_ms, "NONE"),
    ):
        hidden = batch_of(record(0) + record(1, time=varint(distance)), 2, max_timestamp_ms=now_ms)
        assert sender.send(hidden, 2) == told
    below = batch_of(record(time=varint(-5)), 1, timestamp_ms=-(2**63), max_timestamp_ms=now_ms)
    assert sender.send(below, 1) == "INVALID_TIMESTAMP"


def test_a_client_cannot_say_that_its_time_is_the_brokers(wire: Wire) -> None:
    topic = create_topic(wire, configs={"message.timestamp.type": "LogAppendTime"}).name or ""
    batch = batch_of(record(0) + record(1), 2, attributes=LOG_APPEND_TIME)
    answer = produce(wire, topic, batch)
    assert error_name(answer.error_code) == "INVALID_TIMESTAMP"
    assert [each.batch_index for each in answer.record_errors] == [0, 1]


def test_a_bomb_is_not_inflated_whole(start_broker: StartBroker, connect: Connect) -> None:
    zeros = bytes(200 << 20)
    bomb = batch_of(record(value=varint(len(zeros)) + zeros), 1, codec=Codec.ZSTD)
    assert len(bomb) < 7000
    sender = Sender(connect(start_broker().bootstrap_servers))
    tracemalloc.start()
    try:
        assert sender.send(bomb, 1) == "MESSAGE_TOO_LARGE"
        assert tracemalloc.get_traced_memory()[1] < 1.1 * INFLATED_BYTES_MAX
    finally:
        tracemalloc.stop()
    fits = record(value=varint(len(zeros) // 20) + zeros[: len(zeros) // 20])
    assert sender.send(batch_of(fits, 1, codec=Codec.ZSTD), 1) == "NONE"
