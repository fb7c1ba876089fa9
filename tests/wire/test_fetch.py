"""The chunked Fetch response is byte for byte what the schema says, for every version."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.wire import fetch
from oncestream.wire.codec import encode
from oncestream.wire.fetch import FetchedPartition, FetchedTopic, encode_fetch_response
from oncestream.wire.header import encode_response_header
from oncestream.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)


class FileSlice(NamedTuple):
    """Stands for records that are sent from a file."""

    content: bytes


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
CONTENT = st.binary(max_size=300)


@st.composite
def partitions(draw: st.DrawFn) -> FetchedPartition[FileSlice]:
    content = draw(CONTENT)
    aborted = st.builds(fetch.AbortedTransaction, INT64, INT64)
    return FetchedPartition(
        partition=draw(INT32),
        error_code=draw(st.integers(-1, 133)),
        high_watermark=draw(INT64),
        last_stable_offset=draw(INT64),
        log_start_offset=draw(INT64),
        aborted=draw(st.none() | st.lists(aborted, max_size=3)),
        records=FileSlice(content) if draw(st.booleans()) else content,
        records_size=len(content),
        diverging_epoch=draw(st.none() | st.builds(fetch.DivergingEpoch, st.integers(0, 9), INT64)),
        current_leader=draw(st.none() | st.builds(fetch.CurrentLeader, st.integers(0, 9), INT32)),
    )


TOPICS = st.lists(
    st.builds(
        FetchedTopic,
        st.text(max_size=200),
        st.lists(partitions(), max_size=3),
        st.binary(min_size=16, max_size=16),
    ),
    max_size=3,
)


@pytest.mark.parametrize("version", FetchResponse.__versions__)
@settings(max_examples=40)
@given(topics=TOPICS, throttle_ms=INT32, error_code=st.integers(-1, 133), session_id=INT32)
def test_chunks_joined_are_the_frame_of_the_response(
    version: int, topics: list[FetchedTopic[FileSlice]], throttle_ms: int, error_code: int, session_id: int
) -> None:
    chunks = encode_fetch_response(
        version, 77, topics, throttle_ms=throttle_ms, error_code=error_code, session_id=session_id
    )
    response = FetchResponse(
        throttle_time_ms=throttle_ms,
        error_code=error_code,
        session_id=session_id,
        responses=[as_message(topic) for topic in topics],
    )
    body = encode_response_header(77, version >= 12) + encode(response, version)
    assert joined(chunks) == len(body).to_bytes(4, "big") + body


@given(topics=TOPICS)
def test_byte_pieces_are_joined_and_never_empty(topics: list[FetchedTopic[FileSlice]]) -> None:
    for version in (4, 11, 17):
        chunks = encode_fetch_response(version, 1, topics)
        is_slice = [isinstance(chunk, FileSlice) for chunk in chunks]
        assert all(left or right for left, right in itertools.pairwise(is_slice))
        assert all(chunk for chunk in chunks if not isinstance(chunk, FileSlice))


def test_a_file_slice_passes_through_as_it_is() -> None:
    records = FileSlice(b"batch")
    topic = FetchedTopic("t", [FetchedPartition(0, records=records, records_size=5)])
    assert [chunk for chunk in encode_fetch_response(12, 1, [topic]) if chunk is records] == [records]


def as_message(topic: FetchedTopic[FileSlice]) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            PartitionData(
                partition_index=each.partition,
                error_code=each.error_code,
                high_watermark=each.high_watermark,
                last_stable_offset=each.last_stable_offset,
                log_start_offset=each.log_start_offset,
                aborted_transactions=None
                if each.aborted is None
                else [AbortedTransaction(producer_id=a, first_offset=b) for a, b in each.aborted],
                records=each.records.content if isinstance(each.records, FileSlice) else each.records,
                diverging_epoch=EpochEndOffset()
                if each.diverging_epoch is None
                else EpochEndOffset(
                    epoch=each.diverging_epoch.epoch, end_offset=each.diverging_epoch.end_offset
                ),
                current_leader=LeaderIdAndEpoch()
                if each.current_leader is None
                else LeaderIdAndEpoch(
                    leader_id=each.current_leader.leader_id, leader_epoch=each.current_leader.leader_epoch
                ),
            )
            for each in topic.partitions
        ],
    )


def joined(chunks: list[bytes | bytearray | FileSlice]) -> bytes:
    return b"".join(chunk.content if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
