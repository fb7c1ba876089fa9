"""Headers, against kafka-python's and at their edges."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as TheirRequestHeader
from kafka.protocol.api_header import ResponseHeader as TheirResponseHeader

from oncestream.wire.api import ApiKey, request_header_version, response_header_version
from oncestream.wire.codec import DecodeError
from oncestream.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(
    key=st.sampled_from(ApiKey),
    version=st.integers(0, 20),
    number=INT32,
    client=st.none() | st.text(max_size=40),
)
def test_request_headers_are_those_of_kafka_python(
    key: ApiKey, version: int, number: int, client: str | None
) -> None:
    flexible = request_header_version(key, version) == 2
    theirs = TheirRequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=number, client_id=client
    ).encode(flexible=flexible)
    assert encode_request_header(key, version, number, client) == theirs
    expected = RequestHeader(key, version, number, client, len(theirs) + 3)
    assert decode_request_header(b"abc" + theirs + b"body", 3) == expected
    assert decode_request_header(memoryview(b"abc" + theirs + b"body"), 3) == expected


@given(number=INT32, flexible=st.booleans())
def test_response_headers_are_those_of_kafka_python(number: int, flexible: bool) -> None:
    theirs = TheirResponseHeader(correlation_id=number).encode(flexible=flexible)
    assert encode_response_header(number, flexible) == theirs
    assert decode_response_header(theirs + b"body", flexible) == (number, len(theirs))


@pytest.mark.parametrize("api_key", [999, -1, 4, 52])
def test_an_unknown_api_gives_back_what_is_needed_to_answer(api_key: int) -> None:
    raw = api_key.to_bytes(2, "big", signed=True) + b"\0\x07" + b"\0\0\0\x2a" + b"\x7f\xff"
    header = decode_request_header(raw)
    assert (header.api_key, header.api_version, header.correlation_id) == (api_key, 7, 42)


def test_api_versions_of_any_version_has_the_oldest_response_header() -> None:
    assert {response_header_version(ApiKey.API_VERSIONS, version) for version in range(9)} == {0}
    assert response_header_version(ApiKey.METADATA, 9) == 1


def test_tagged_fields_of_a_header_are_skipped() -> None:
    raw = encode_request_header(ApiKey.METADATA, 12, 1, "me")[:-1] + b"\2\0\3abc\5\0"
    assert decode_request_header(raw + b"body").body_position == len(raw)


@given(key=st.sampled_from(ApiKey), version=st.integers(0, 20), client=st.text(min_size=1, max_size=40))
def test_a_truncated_header_is_refused_at_every_byte(key: ApiKey, version: int, client: str) -> None:
    whole = encode_request_header(key, version, 1, client)
    for stop in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_request_header(whole[:stop])
    for stop in range(4):
        with pytest.raises(DecodeError):
            decode_response_header(bytes(stop), False)
    with pytest.raises(DecodeError):
        decode_response_header(bytes(4), True)


@given(raw=st.binary(max_size=40))
def test_random_bytes_are_a_header_or_a_decode_error(raw: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert decode_request_header(raw).body_position <= len(raw)
