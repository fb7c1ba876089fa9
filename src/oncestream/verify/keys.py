"""A small language that says which part of a record identifies it: no code is run.

`value`, `key`, `topic`, `partition`, `offset`, `position` (TOPIC-PARTITION@OFFSET), `header:NAME`, `json:$.PATH`
(of the value) and `key.json:$.PATH`; several are joined by ` + `. A path is `$`, then `.name`, `["any name"]` or
`[0]`, repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadKeyExpression

JOIN: Final = " + "
_STEP: Final = re.compile(r'\.([A-Za-z_][\w-]*)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


class AuditRecord(NamedTuple):
    """A record as a key function of the user gets it."""

    at: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


KeyFunction = Callable[[AuditRecord], bytes | None]


@dataclass(frozen=True, slots=True)
class Key:
    """Reads the key of every record of a batch; None where a record has none."""

    text: str
    needs_headers: bool
    _read: Callable[[TopicPartition, pa.RecordBatch], list[bytes | None]]

    def of_batch(self, at: TopicPartition, rows: pa.RecordBatch) -> list[bytes | None]:
        return self._read(at, rows)


def key_of(expression: str | KeyFunction) -> Key:
    """From an expression, or a function of one record."""
    if callable(expression):
        function = expression
        name = getattr(function, "__name__", "a function")
        return Key(name, True, lambda at, rows: [function(record) for record in records_of(at, rows)])
    parts = [_part(part.strip(), expression) for part in expression.split(JOIN)]
    if len(parts) == 1:
        return Key(expression, *parts[0])
    readers = [read for _, read in parts]

    def read_all(at: TopicPartition, rows: pa.RecordBatch) -> list[bytes | None]:
        return [_joined(found) for found in zip(*(read(at, rows) for read in readers), strict=True)]

    return Key(expression, any(needs for needs, _ in parts), read_all)


def records_of(at: TopicPartition, rows: pa.RecordBatch) -> Iterator[AuditRecord]:
    for row in rows.to_pylist():
        headers = tuple((header["key"], header["value"]) for header in row.get("headers") or ())
        yield AuditRecord(at, row["offset"], row["key"], row["value"], headers)


_Reader = Callable[[TopicPartition, pa.RecordBatch], list[bytes | None]]

_PLACES: Final[dict[str, _Reader]] = {
    "topic": lambda at, rows: [at.topic.encode()] * len(rows),
    "partition": lambda at, rows: [b"%d" % at.partition] * len(rows),
    "offset": lambda _, rows: [b"%d" % offset for offset in rows.column("offset").to_pylist()],
    "position": lambda at, rows: [f"{at}@{offset}".encode() for offset in rows.column("offset").to_pylist()],
}


def _part(text: str, whole: str) -> tuple[bool, _Reader]:
    """Whether it needs headers, and how to read it."""
    word, colon, rest = text.partition(":")
    if text in ("key", "value"):
        return False, lambda _, rows: rows.column(text).to_pylist()
    if text in _PLACES:
        return False, _PLACES[text]
    if word == "header" and rest:
        return True, lambda _, rows: [_header(row, rest) for row in rows.column("headers").to_pylist()]
    if word in ("json", "key.json") and colon:
        column = "value" if word == "json" else "key"
        steps = _steps(rest, whole)
        return False, lambda _, rows: [_at_path(each, steps) for each in rows.column(column).to_pylist()]
    raise BadKeyExpression(expression=whole, reason=f"{text!r} is not understood")


def _header(headers: list[dict[str, Any]] | None, name: str) -> bytes | None:
    """The last of that name, as Kafka's own clients choose it."""
    return next((header["value"] for header in reversed(headers or ()) if header["key"] == name), None)


def _steps(path: str, whole: str) -> list[str | int]:
    if not path.startswith("$"):
        raise BadKeyExpression(expression=whole, reason="a path starts with $")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise BadKeyExpression(expression=whole, reason=f"{path[at:]!r} is no step of a path")
        name, index, quoted = found.groups()
        steps.append(int(index) if index else name or json.loads(f'"{quoted}"'))
        at = found.end()
    return steps


def _at_path(text: bytes | None, steps: list[str | int]) -> bytes | None:
    """Text as it is, anything else as JSON; None where there is nothing at the path, or no JSON."""
    try:
        found = json.loads(text or b"null")
        for step in steps:
            found = found[step]
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    if found is None:
        return None
    if isinstance(found, str):
        return found.encode(errors="surrogatepass")
    return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()


def _joined(parts: tuple[bytes | None, ...]) -> bytes | None:
    """With lengths, so that ("a", "bc") is not ("ab", "c")."""
    if any(part is None for part in parts):
        return None
    return b"".join(b"%d:%b" % (len(part), part) for part in parts if part is not None)
