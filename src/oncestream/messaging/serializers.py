"""From Python values to bytes and back. Any function of this form can be given in their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]


def to_bytes(value: Any) -> bytes | None:
    """The default: bytes and str as they are, dict and list as JSON, None as no value (a tombstone)."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict | list):
        return to_json(value)
    raise TypeError(f"it is of type {type(value).__name__}")


def to_json(value: Any) -> bytes | None:
    """Any value that JSON can hold; None is no value (a tombstone), not `null`."""
    return None if value is None else json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def from_json(data: bytes) -> Any:
    return json.loads(data)


def from_text(data: bytes) -> str:
    return data.decode()
