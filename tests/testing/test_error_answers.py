"""Made-up errors: of every API and version, a code for everything that was asked."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.apis import APIS
from oncestream.errors import BadFault
from oncestream.testing.error_answers import SHAPES, can_fail, error_answer
from oncestream.testing.frames import messages_of
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncestream.wire.schema import Struct, version_range
from tests.broker.random_messages import MessageMaker
from tests.testing.kit import request_of

ERROR = ErrorCode.NOT_COORDINATOR
WHOLE = [key for key in APIS if can_fail(ApiKey(key)) and key not in SHAPES and key != ApiKey.METADATA]


def versions_of(api: ApiKey) -> Iterator[int]:
    classes = messages_of(api)
    assert classes is not None
    for version in classes.request.__versions__:
        code = classes.answer.__fields__.get("error_code")
        if api in SHAPES or (code and version in version_range(code.versions)):
            yield version


CASES = [(ApiKey(key), version) for key in [*SHAPES, *WHOLE] for version in versions_of(ApiKey(key))]


@given(st.sampled_from(CASES), st.integers(0, 2**32))
def test_an_error_says_so_of_all_that_was_asked_and_of_nothing_else(
    case: tuple[ApiKey, int], seed: int
) -> None:
    api, version = case
    classes = messages_of(api)
    assert classes is not None
    message = MessageMaker(random.Random(seed), ["a", "b"], [bytes([1] * 16)]).request(
        classes.request, version
    )
    request = request_of(message, version)
    answer = error_answer(request, ERROR)
    assert request.decode_answer(request.encode_answer(answer)) is not None, "it can be read"
    shapes = [shape for shape in SHAPES.get(api, ()) if version in version_range(shape.versions)]
    if shapes:
        asked: list[object] = [message]
        for level in shapes[0].levels:
            asked = [entry for above in asked for entry in getattr(above, level.asked) or ()]
        assert errors_in(answer) == [ERROR] * (len(asked) or int(api is ApiKey.FETCH))
    else:
        assert errors_in(answer) == [ERROR]


def errors_in(answer: object) -> list[ErrorCode]:
    """Every error code in it that is not 0."""
    if isinstance(answer, list):
        return [code for each in answer for code in errors_in(each)]
    if not isinstance(answer, Struct):
        return []
    found = []
    for name in type(answer).__fields__:
        value = getattr(answer, name)
        is_code = name in {"error_code", "partition_error_code"}
        found += [ErrorCode(value)] if is_code and value else errors_in(value)
    return found


def test_an_error_of_a_produce_names_its_partitions() -> None:
    parts = [PartitionProduceData(index=1, records=b""), PartitionProduceData(index=4, records=b"")]
    asked = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=parts)])
    answer = error_answer(request_of(asked, 12), ERROR)
    assert isinstance(answer, ProduceResponse)
    (topic,) = answer.responses
    assert topic.name == "t"
    assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
        (1, ERROR, -1),
        (4, ERROR, -1),
    ]


def test_an_error_of_a_fetch_names_its_partitions_by_their_topic_id() -> None:
    asked = FetchRequest(
        topics=[FetchTopic(topic_id=bytes([9] * 16), partitions=[FetchPartition(partition=3)])]
    )
    answer = error_answer(request_of(asked, 17), ERROR)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    assert topic.topic_id == bytes([9] * 16)
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, ERROR)]


def test_an_error_of_an_offset_fetch_is_that_of_its_group() -> None:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    answer = error_answer(request_of(asked, 9), ERROR)
    assert isinstance(answer, OffsetFetchResponse)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [("g", ERROR)]


def test_a_version_whose_answers_have_no_room_for_an_error_is_refused() -> None:
    with pytest.raises(BadFault, match="DESCRIBE_LOG_DIRS version 1"):
        error_answer(request_of(DescribeLogDirsRequest(), 1), ERROR)


def test_every_api_of_producing_consuming_groups_transactions_and_topics_can_fail() -> None:
    unable = {ApiKey(key).name for key in APIS if not can_fail(ApiKey(key))}
    assert unable == {"ALTER_CLIENT_QUOTAS", "ALTER_USER_SCRAM_CREDENTIALS"}
