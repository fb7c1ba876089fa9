"""Truncated and bit-flipped messages end in DecodeError or in a message: nothing else, and soon."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncestream.wire.codec import DecodeError, decode, encode, uvarint
from oncestream.wire.messages.api_versions import ApiVersionsResponse
from oncestream.wire.messages.create_topics import CreateTopicsRequest
from oncestream.wire.messages.fetch import FetchRequest
from oncestream.wire.messages.heartbeat import HeartbeatRequest
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from oncestream.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.effort import effort
from tests.wire.messages import ALL_CASES, Case, by_class, message_of

TRUNCATIONS_MAX = 400
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("cases", by_class(ALL_CASES))
def test_a_truncated_message_is_refused_at_every_byte_in_every_version(cases: list[Case]) -> None:
    for case in cases:
        truncated_is_refused(case)


@settings(max_examples=effort(2, soak=20), suppress_health_check=QUIET)
@given(data=st.data())
def truncated_is_refused(case: Case, data: st.DataObject) -> None:
    whole = encode(data.draw(message_of(case)), case.version)
    positions = range(len(whole))
    if len(whole) > TRUNCATIONS_MAX:
        positions = range(0, len(whole), len(whole) // TRUNCATIONS_MAX)
    for stop in positions:
        with pytest.raises(DecodeError):
            decode(case.cls, whole[:stop], case.version)


@pytest.mark.parametrize("cases", by_class(ALL_CASES))
def test_flipped_bits_give_a_message_or_a_decode_error_in_every_version(cases: list[Case]) -> None:
    for case in cases:
        flipped_bits_are_survived(case)


@settings(max_examples=effort(4, soak=40), suppress_health_check=QUIET)
@given(data=st.data(), seed=st.integers(0, 2**32))
def flipped_bits_are_survived(case: Case, data: st.DataObject, seed: int) -> None:
    whole = encode(data.draw(message_of(case)), case.version)
    if not whole:
        return
    chance = random.Random(seed)
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        started = time.perf_counter()
        with contextlib.suppress(DecodeError):
            decode(case.cls, damaged, case.version)
        assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("cls", "version", "body"),
    [
        pytest.param(MetadataRequest, 1, b"\x7f\xff\xff\xff", id="array of two billion entries"),
        pytest.param(MetadataRequest, 9, uvarint(2**32), id="compact array of four billion entries"),
        pytest.param(MetadataRequest, 0, b"\xff\xff\xff\xff", id="null array where none may be"),
        pytest.param(MetadataRequest, 1, b"\0\0\0\1\xff\xff\0\0\0\0\0\0", id="null string where none may be"),
        pytest.param(MetadataRequest, 1, b"\0\0\0\1\0\2\xc3\x28\0\0\0\0", id="bad UTF-8"),
        pytest.param(MetadataRequest, 9, b"\xff\xff\xff\xff\xff\xff\1", id="varint without end"),
        pytest.param(MetadataRequest, 12, b"\1\0\0" + uvarint(2**34), id="billions of tagged fields"),
        pytest.param(MetadataResponse, 12, bytes(4) + b"\2" + bytes(4), id="null host"),
        pytest.param(FetchRequest, 12, b"", id="nothing"),
        pytest.param(CreateTopicsRequest, 99, b"", id="unknown version"),
    ],
)
def test_lengths_that_cannot_be_are_refused(cls: Any, version: int, body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(cls, body, version)


def test_a_tagged_field_whose_size_lies_is_refused() -> None:
    whole = encode(ApiVersionsResponse(finalized_features_epoch=5), 3)
    size_at = len(whole) - 9
    assert whole[size_at] == 8
    with pytest.raises(DecodeError, match="finalized_features_epoch"):
        decode(ApiVersionsResponse, whole[:size_at] + b"\7" + whole[size_at + 1 :], 3)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    whole = encode(request, 12)
    assert whole[-1] == 0
    assert decode(MetadataRequest, whole[:-1] + b"\1\x63\3abc", 12) == request


def test_records_are_views_of_the_receive_buffer() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])]
    )
    received = bytearray(b"head" + encode(request, 9))
    records = decode(ProduceRequest, received, 9, position=4).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0:5] = b"patch"
    assert b"patch" in received


@pytest.mark.parametrize("version", [3, 4], ids=["plain", "flexible"])
def test_a_string_longer_than_kafka_allows_is_refused(version: int) -> None:
    fits = encode(HeartbeatRequest(group_id="a" * 32767), version)
    assert decode(HeartbeatRequest, fits, version).group_id == "a" * 32767
    if version == 4:
        with pytest.raises(DecodeError, match="32768"):
            decode(HeartbeatRequest, encode(HeartbeatRequest(group_id="a" * 32768), version), version)
