"""What `oncestream produce` reads: a line or a JSON object is one message."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oncestream.cli.arguments import PARTITION_MAX
from oncestream.errors import BadStreamName
from oncestream.streams.names import parse_topic

Header = tuple[str, bytes | None]
Parse = Callable[[bytes], "Message"]

# `offset` is what consume tells and nobody can choose: it is passed over, so that its output can be sent again.
FIELDS: Final = frozenset(
    {"topic", "key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp", "offset"}
)
TIMESTAMP_MAX: Final = 2**63 - 1


class Message(NamedTuple):
    """None: the command's options decide, or the client. `topic` is as it was given until it is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def line_parser(key_separator: str | None) -> Parse:
    """Every line is a value, after its key where a separator is given; ValueError says what is wrong with one."""

    def parse(line: bytes) -> Message:
        if key_separator is None:
            return Message(line)
        key, found, value = line.partition(key_separator.encode())
        if not found:
            raise ValueError(f"there is no key separator {key_separator!r}")
        return Message(value, key)

    return parse


def parse_json(line: bytes) -> Message:
    """An object with `value` and, if wanted, key, headers, partition, timestamp (ms) and topic."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")
    if unknown := sorted(set(told) - FIELDS):
        raise ValueError(f"unknown field {unknown[0]!r}")
    if "value" not in told and "value_base64" not in told:
        raise ValueError("it has no field 'value'")
    return Message(
        value=_content(told, "value"),
        key=_content(told, "key"),
        headers=_headers(told.get("headers")),
        topic=_topic(told.get("topic")),
        partition=_number(told, "partition", PARTITION_MAX),
        timestamp_ms=_number(told, "timestamp", TIMESTAMP_MAX),
    )


def _content(told: dict[str, Any], name: str) -> bytes | None:
    """Texts as UTF-8, other JSON as JSON; binary content stands in `<name>_base64`."""
    encoded = told.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{name}_base64 is not base64") from None
    value = told.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not Unicode text") from None


def _headers(told: object) -> tuple[Header, ...]:
    """{"name": "value"}, or what consume prints: [{"key": "name", "value": "value"}]."""
    if told is None:
        return ()
    entries = (
        [{"key": key, "value": value} for key, value in told.items()] if isinstance(told, dict) else told
    )
    if not isinstance(entries, list):
        raise ValueError("headers is neither an object nor a list")
    headers = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
            raise ValueError("a header is an object with key and value")
        headers.append((entry["key"], _content(entry, "value")))
    return tuple(headers)


def _topic(told: object) -> str | None:
    if told is None:
        return None
    if not isinstance(told, str):
        raise ValueError("topic is not a text")
    try:
        parse_topic(told)
    except BadStreamName as error:
        raise ValueError(error.cause_text) from None
    return told


def _number(told: dict[str, Any], name: str, largest: int) -> int | None:
    value = told.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError(f"{name} is not a whole number from 0 to {largest}")
    return value
