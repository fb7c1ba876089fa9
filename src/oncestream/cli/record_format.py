"""How `oncestream consume` prints a record: a template of fields, JSON, or the value alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from string import Formatter
from typing import Any, Final, NamedTuple

from oncestream.errors import BadArgument

FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\0": "\0", "\\\\": "\\"}


class Record(NamedTuple):
    """As it was read; `timestamp` in ms, None where the record has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Format = Callable[[Record], str]


def record_format(text: str) -> Format:
    """From `value`, `json`, `yaml`, or a template with fields such as `{offset} {value}\\n`."""
    if text == "value":
        return lambda record: f"{_readable(record.value)}\n"
    if text == "json":
        return lambda record: f"{_json(record)}\n"
    if text == "yaml":
        return lambda record: f"- {_json(record)}\n"  # JSON on one line is YAML too
    return _template(text)


def _template(text: str) -> Format:
    parts: list[tuple[str, str | None]] = []
    try:
        for literal, field, spec, conversion in Formatter().parse(text):
            if field is not None and (field not in FIELDS or spec or conversion):
                raise ValueError(f"the fields are {', '.join(FIELDS)}")
            parts.append((_unescaped(literal), field))
    except ValueError as error:
        raise BadArgument(name=f"--format {text!r}", reason=str(error)) from None
    if not any(field for _, field in parts):
        raise BadArgument(name=f"--format {text!r}", reason="it is neither value nor json and has no field")

    def format_record(record: Record) -> str:
        return "".join(
            literal + ("" if field is None else _field(getattr(record, field))) for literal, field in parts
        )

    return format_record


def _unescaped(literal: str) -> str:
    found, at = [], 0
    while at < len(literal):
        pair = literal[at : at + 2]
        found.append(ESCAPES.get(pair, literal[at]))
        at += 2 if pair in ESCAPES else 1
    return "".join(found)


def _field(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{name}={_readable(content)}" for name, content in value)
    return _readable(value) if value is None or isinstance(value, bytes) else str(value)


def _readable(content: bytes | None) -> str:
    """Bytes that are no UTF-8 as \\xNN; nothing for null."""
    return "" if content is None else content.decode("utf-8", "backslashreplace")


def _json(record: Record) -> str:
    """One line. Content that is no UTF-8 stands in `key_base64` and `value_base64`, its plain field is null."""
    told: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_content("key", record.key),
        **_content("value", record.value),
        "headers": [{"key": name, **_content("value", content)} for name, content in record.headers],
    }
    return json.dumps(told, ensure_ascii=False)


def _content(name: str, content: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(content or b"").decode()}
