"""Kafka's frames as a proxy sees them: which API a request is of, its message, and the answer to it."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from oncestream.errors import BadFault, ProxyFailed
from oncestream.wire.api import ApiKey, is_flexible, response_header_version
from oncestream.wire.codec import decode, encode_into, read_uvarint
from oncestream.wire.header import decode_request_header, decode_response_header, encode_response_header
from oncestream.wire.schema import Message

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024

_LENGTH: Final = struct.Struct(">i")
_START: Final = struct.Struct(">hhi")  # api key, version, correlation id
_TEXT_LENGTH: Final = struct.Struct(">h")
_ACKS: Final = struct.Struct(">h")
_API_KEYS: Final = {int(key): key for key in ApiKey}
_KEYS: Final = {key.name.replace("_", "").lower(): key for key in ApiKey}


@dataclass(frozen=True, slots=True)
class Request:
    """A request, its length in front. Of what is no Kafka request (a bare SASL token) the key is None."""

    frame: bytes
    api: ApiKey | None
    version: int
    correlation_id: int

    @staticmethod
    def of(frame: bytes) -> Request:
        if len(frame) < _LENGTH.size + _START.size:
            return Request(frame, None, 0, 0)
        key, version, correlation_id = _START.unpack_from(frame, _LENGTH.size)
        return Request(frame, _API_KEYS.get(key), version, correlation_id)

    @property
    def is_understood(self) -> bool:
        """Whether this package has the messages of its API in its version."""
        classes = messages_of(self.api) if self.api is not None else None
        return classes is not None and self.version in classes.request.__versions__

    def message(self) -> Message:
        assert self.api is not None
        classes = messages_of(self.api)
        assert classes is not None
        body = memoryview(self.frame)[_LENGTH.size :]
        return decode(classes.request, body, self.version, decode_request_header(body).body_position)

    def decode_answer(self, frame: bytes) -> Message:
        assert self.api is not None
        classes = messages_of(self.api)
        assert classes is not None
        body = memoryview(frame)[_LENGTH.size :]
        _, position = decode_response_header(body, self._tagged_answer)
        return decode(classes.answer, body, self.version, position)

    def encode_answer(self, answer: Message) -> bytes:
        out = bytearray(_LENGTH.size)
        out += encode_response_header(self.correlation_id, self._tagged_answer)
        encode_into(answer, self.version, out)
        _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
        return bytes(out)

    @property
    def owes_answer(self) -> bool:
        """False only for a Produce with acks=0."""
        if self.api is not ApiKey.PRODUCE or not self.is_understood:
            return True
        body = memoryview(self.frame)[_LENGTH.size :]
        position = decode_request_header(body).body_position
        if is_flexible(self.api, self.version):
            length, position = read_uvarint(body, position)
            position += max(length - 1, 0)
        else:
            position += _TEXT_LENGTH.size + max(_TEXT_LENGTH.unpack_from(body, position)[0], 0)
        return bool(_ACKS.unpack_from(body, position)[0])

    @property
    def _tagged_answer(self) -> bool:
        assert self.api is not None
        return response_header_version(self.api, self.version) == 1


@dataclass(frozen=True, slots=True)
class Messages:
    """The two messages of an API."""

    request: type[Message]
    answer: type[Message]


@cache
def messages_of(key: int) -> Messages | None:
    """None for an API that this package does not speak."""
    api = _API_KEYS.get(key)
    if api is None:
        return None
    name = f"oncestream.wire.messages.{api.name.lower()}"
    if find_spec(name) is None:
        return None
    module, start = import_module(name), api.name.title().replace("_", "")
    return Messages(getattr(module, f"{start}Request"), getattr(module, f"{start}Response"))


def api_of(name: ApiKey | str) -> ApiKey:
    """The API called EndTxn, END_TXN or end_txn."""
    if isinstance(name, ApiKey):
        return name
    key = _KEYS.get(name.replace("_", "").lower())
    if key is None:
        raise BadFault(reason=f"there is no API {name!r}", advice="name it as Kafka does: EndTxn, Produce")
    return key


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame, its length in front; None where the other side has ended."""
    try:
        head = await reader.readexactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(head)
        if not 0 <= length <= FRAME_BYTES_MAX:
            raise ProxyFailed(reason=f"a frame of {length} bytes came; is it TLS?")
        return head + await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
