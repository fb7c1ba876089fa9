"""The hand-made Produce body is byte for byte what the codec writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.produce_frame import produce_body
from oncestream.client.topic_partition import TopicPartition
from oncestream.wire.codec import encode
from oncestream.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

batches_of = st.dictionaries(
    st.text(min_size=1, max_size=40),
    st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=300), min_size=1, max_size=4),
    max_size=4,
)


@given(st.none() | st.text(max_size=200), st.integers(0, 2**31 - 1), batches_of, st.integers(9, 12))
def test_the_pieces_joined_are_the_encoded_request(
    transactional_id: str | None, timeout_ms: int, topics: dict[str, dict[int, bytes]], version: int
) -> None:
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=i, records=data) for i, data in parts.items()],
            )
            for name, parts in topics.items()
        ],
    )
    flat = [(TopicPartition(name, i), data) for name, parts in topics.items() for i, data in parts.items()]
    assert b"".join(produce_body(transactional_id, timeout_ms, flat)) == encode(request, version)
