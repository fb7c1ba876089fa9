"""Request and response headers, both directions. A frame's 4-byte length is not part of them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from oncestream.wire.api import ApiKey, is_flexible
from oncestream.wire.codec import DecodeError, read_uvarint
from oncestream.wire.schema import Buffer

_REQUEST: Final = struct.Struct(">hhih")  # api key, api version, correlation id, length of the client id
_RESPONSE: Final = struct.Struct(">i")
_RESPONSE_TAGGED: Final = struct.Struct(">ix")
_KNOWN_KEYS: Final = frozenset(map(int, ApiKey))


class RequestHeader(NamedTuple):
    """What stands before a request. Of an unknown API, only key, version and correlation id are known."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(buffer: Buffer, position: int = 0) -> RequestHeader:
    """Read header version 1 or 2, whichever the API and its version call for."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buffer, position)
    except struct.error as error:
        raise DecodeError(f"request header: {error}") from error
    position += _REQUEST.size
    if api_key not in _KNOWN_KEYS:
        return RequestHeader(api_key, api_version, correlation_id, None, position)
    client_id = None
    if length >= 0:
        stop = position + length
        if stop > len(buffer):
            raise DecodeError(f"request header: client id of {length} bytes is cut off")
        try:
            client_id = str(buffer[position:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"request header: client id: {error}") from error
        position = stop
    if is_flexible(api_key, api_version):
        position = _after_tags(buffer, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """Header version 1 if `flexible`, else 0; `api.response_header_version` says which."""
    return (_RESPONSE_TAGGED if flexible else _RESPONSE).pack(correlation_id)


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Header version 1 or 2; the client id has a two-byte length in both."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    tags = b"\0" if is_flexible(api_key, api_version) else b""
    return _REQUEST.pack(api_key, api_version, correlation_id, length) + name + tags


def decode_response_header(buffer: Buffer, flexible: bool, position: int = 0) -> tuple[int, int]:
    """The correlation id and where the body starts."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(buffer, position)
    except struct.error as error:
        raise DecodeError(f"response header: {error}") from error
    position += _RESPONSE.size
    return correlation_id, _after_tags(buffer, position) if flexible else position


def _after_tags(buffer: Buffer, position: int) -> int:
    """The position after tagged fields, none of which we know."""
    try:
        count = buffer[position]
        position += 1
        if not count:
            return position
        if count > 127:
            count, position = read_uvarint(buffer, position - 1)
        for _ in range(count):
            _, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
            position += size
    except IndexError as error:
        raise DecodeError("header: tagged fields are cut off") from error
    if position > len(buffer):
        raise DecodeError("header: tagged fields are cut off")
    return position
