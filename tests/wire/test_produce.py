"""The short way of Produce reads and writes what the general codec does, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.wire.codec import DecodeError, decode, encode
from oncestream.wire.header import decode_request_header, encode_request_header, encode_response_header
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from oncestream.wire.produce import PlainAnswer, PlainProduce, by_id, read_plain, write_plain

VERSIONS = range(3, 14)
FLEXIBLE_FROM = 9
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text("abc.-_09", min_size=1, max_size=120)
RECORDS = st.binary(max_size=100) | st.integers(100, 40_000).map(bytes)
PARTITIONS = st.lists(st.builds(PartitionProduceData, index=INT32, records=RECORDS), min_size=1, max_size=5)
TOPICS = st.builds(
    TopicProduceData,
    name=NAMES,
    topic_id=st.binary(min_size=16, max_size=16),
    partition_data=PARTITIONS,
)
CLIENT_IDS = st.none() | st.text(max_size=20)


def frame_of(request: ProduceRequest, version: int, correlation_id: int, client_id: str | None) -> memoryview:
    header = encode_request_header(0, version, correlation_id, client_id)
    return memoryview(header + encode(request, version))


def assert_same(plain: PlainProduce, request: ProduceRequest, version: int) -> None:
    (topic,) = request.topic_data
    assert request.transactional_id is None
    assert (plain.version, plain.acks, plain.timeout_ms) == (version, request.acks, request.timeout_ms)
    assert plain.topic == (topic.topic_id if by_id(version) else topic.name.encode())
    assert [(index, bytes(records)) for index, records in plain.partitions] == [
        (data.index, bytes(data.records or b"")) for data in topic.partition_data
    ]


def read_generally(frame: bytearray, version: int) -> ProduceRequest | None:
    """None if a text in it is not UTF-8: the short way does not look into texts."""
    try:
        return decode(ProduceRequest, frame, version, decode_request_header(frame).body_position)
    except DecodeError as error:
        if "utf-8" in str(error):
            return None
        raise


@given(st.sampled_from(VERSIONS), TOPICS, INT16, INT32, INT32, CLIENT_IDS)
def test_a_plain_request_is_read_as_it_was_sent(
    version: int, topic: TopicProduceData, acks: int, timeout_ms: int, number: int, client_id: str | None
) -> None:
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])

    plain = read_plain(frame_of(request, version, number, client_id))

    assert plain is not None
    assert plain.correlation_id == number
    assert_same(plain, request, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "request_",
    [
        ProduceRequest(topic_data=[]),
        ProduceRequest(topic_data=[TopicProduceData(name="a", partition_data=[])]),
        ProduceRequest(topic_data=[TopicProduceData(name="a", partition_data=[PartitionProduceData()])]),
        ProduceRequest(
            transactional_id="t",
            topic_data=[TopicProduceData(name="a", partition_data=[PartitionProduceData(records=b"x")])],
        ),
        ProduceRequest(
            topic_data=[
                TopicProduceData(name=name, partition_data=[PartitionProduceData(records=b"x")])
                for name in "ab"
            ]
        ),
    ],
    ids=["no topic", "no partition", "no records", "a transaction", "two topics"],
)
def test_what_is_not_plain_is_left_to_the_general_codec(version: int, request_: ProduceRequest) -> None:
    assert read_plain(frame_of(request_, version, 1, "client")) is None


@given(st.sampled_from(VERSIONS), TOPICS, st.data())
def test_a_damaged_request_is_read_as_the_general_codec_reads_it_or_not_at_all(
    version: int, topic: TopicProduceData, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(ProduceRequest(acks=-1, topic_data=[topic]), version, 1, "client"))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(2, min(len(frame), 200) - 1))] = data.draw(st.integers(0, 255))
    cut = frame[: data.draw(st.integers(8, len(frame)))]

    plain = read_plain(memoryview(cut))

    if plain is not None:
        request = read_generally(cut, plain.version)
        if request is not None:
            assert_same(plain, request, plain.version)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    topic=TOPICS,
    number=INT32,
    answers=st.lists(st.builds(PlainAnswer, INT32, INT64, INT64, INT64), max_size=5),
)
def test_the_answer_is_what_the_general_codec_writes(
    version: int, topic: TopicProduceData, number: int, answers: list[PlainAnswer]
) -> None:
    name = topic.topic_id if by_id(version) else topic.name.encode()
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=answer.partition,
                        base_offset=answer.base_offset,
                        log_append_time_ms=answer.append_time_ms,
                        log_start_offset=answer.start_offset,
                    )
                    for answer in answers
                ],
            )
        ]
    )
    body = encode_response_header(number, version >= FLEXIBLE_FROM) + encode(response, version)

    written = write_plain(PlainProduce(version, number, -1, 1000, name, []), answers)

    assert written == len(body).to_bytes(4, "big") + body


def test_a_size_that_never_ends_is_not_plain() -> None:
    topic = TopicProduceData(name="a", partition_data=[PartitionProduceData(records=bytes(200))])
    frame = bytearray(frame_of(ProduceRequest(topic_data=[topic]), 9, 1, None))
    at = frame.index(b"\xc9\x01")  # 201 as a varint
    frame[at:] = b"\xff" * (len(frame) - at)

    assert read_plain(memoryview(frame)) is None
    with pytest.raises(DecodeError):
        decode(ProduceRequest, frame, 9, decode_request_header(frame).body_position)
