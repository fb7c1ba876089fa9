"""Messages to bytes and back: `decode`, `encode`, `encode_into`.

A codec is compiled per message class and version at its first use, as straight-line Python in which runs of
fixed-size fields are one `struct` call. Fields that a version lacks are dropped when written and have
their default when read; unknown tagged fields are skipped.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from oncestream.wire import decoder_source, encoder_source
from oncestream.wire.schema import Buffer, Message

M = TypeVar("M", bound=Message)

_VARINT_BYTES_MAX: Final = 5
_VERSION: Final = struct.Struct(">h")
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


class DecodeError(ValueError):
    """The bytes are not a message of that kind: truncated, a length that cannot be, bad UTF-8."""


def decode(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> M:
    """The message that starts at `position`; record data in it are views of `buffer`."""
    function = cls.__decoders__.get(version) or _compile_decoder(cls, version)
    try:
        message: M = function(memoryview(buffer), position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from error
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message` in `version`."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of `message` to `out`, which may hold a header already."""
    cls = type(message)
    (cls.__encoders__.get(version) or _compile_encoder(cls, version))(message, out)


def decode_versioned(cls: type[M], buffer: Buffer, *, allow_newer: bool = False) -> M:
    """A message behind its version, as in the coordinators' logs.

    With `allow_newer`, a version above those we know is read as the newest we know.
    """
    if len(buffer) < _VERSION.size:
        raise DecodeError(f"{cls.__name__}: no version in {len(buffer)} bytes")
    (version,) = _VERSION.unpack_from(buffer)
    if allow_newer:
        version = min(version, cls.__versions__[-1])
    return decode(cls, buffer, version, _VERSION.size)


def encode_versioned(message: Message, version: int) -> bytes:
    """The bytes of `message` behind its version."""
    out = bytearray(_VERSION.pack(version))
    encode_into(message, version, out)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError(f"varint longer than {_VARINT_BYTES_MAX} bytes before byte {position}")


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compile_decoder(cls: type[Message], version: int) -> Any:
    if version not in cls.__versions__:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    names: dict[str, Any] = {"read_uvarint": read_uvarint, "DecodeError": DecodeError}
    function = _run(*decoder_source.write(cls, version, names), name=f"decode {cls.__name__} v{version}")
    cls.__decoders__[version] = function
    return function


def _compile_encoder(cls: type[Message], version: int) -> Any:
    if version not in cls.__versions__:
        raise ValueError(f"{cls.__name__} has no version {version}")
    function = _run(
        *encoder_source.write(cls, version, {"uvarint": uvarint}), name=f"encode {cls.__name__} v{version}"
    )
    cls.__encoders__[version] = function
    return function


def _run(source: str, names: dict[str, Any], name: str) -> Any:
    exec(compile(source, f"<{name}>", "exec"), names)  # noqa: S102 - made of field names in this package
    return names["codec"]
