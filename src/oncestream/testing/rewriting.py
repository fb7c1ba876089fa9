"""Answers changed on their way so that clients stay on the proxy, and speak what the proxy understands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from oncestream.client.settings import Address
from oncestream.testing.frames import Request, messages_of
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import DecodeError
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.api_versions import ApiVersionsResponse
from oncestream.wire.messages.describe_cluster import DescribeClusterResponse
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.find_coordinator import FindCoordinatorResponse
from oncestream.wire.messages.metadata import MetadataResponse
from oncestream.wire.messages.produce import ProduceResponse
from oncestream.wire.schema import Message

Through = Callable[[Address], Address]

REWRITTEN: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
    }
)


class HasAddress(Protocol):
    host: str
    port: int


class Edited(NamedTuple):
    """An answer and whether it differs from what the broker sent."""

    answer: Message
    changed: bool


def rewrite(request: Request, frame: bytes, through: Through) -> bytes:
    """The answer with every broker's address replaced by that of its door in the proxy."""
    if request.api not in REWRITTEN or not request.is_understood:
        return frame
    try:
        edited = edit(request.decode_answer(frame), through)
    except DecodeError:
        if request.api is ApiKey.API_VERSIONS:
            return frame  # a broker that knows no such version answers in version 0
        raise
    return request.encode_answer(edited.answer) if edited.changed else frame


def edit(answer: Message, through: Through) -> Edited:
    """Produce and Fetch name addresses only where a leader has moved."""
    places = _addresses(answer)
    for place in places:
        place.host, place.port = through(Address(place.host, place.port))
    if isinstance(answer, ApiVersionsResponse) and answer.error_code == ErrorCode.NONE:
        _lower_versions(answer)
        return Edited(answer, True)
    return Edited(answer, bool(places))


def _addresses(answer: Message) -> list[HasAddress]:
    match answer:
        case MetadataResponse() | DescribeClusterResponse():
            return [*answer.brokers]
        case ProduceResponse() | FetchResponse():
            return [*answer.node_endpoints]
        case FindCoordinatorResponse():
            told: list[HasAddress] = [answer, *answer.coordinators]
            return [place for place in told if place.host]
    return []


def _lower_versions(answer: ApiVersionsResponse) -> None:
    for each in answer.api_keys:
        classes = messages_of(each.api_key)
        if classes is not None:
            each.max_version = min(each.max_version, classes.answer.__versions__[-1])
