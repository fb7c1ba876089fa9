"""Dead letters as records: the input as it was, the reason and the origin in headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from oncestream.records.arrow_headers import HEADERS_TYPE
from oncestream.spark.outlet import DeadLetter

REASON_CHARS_MAX: Final = 1000
FRAME_BYTES: Final = 500  # of a record besides key, value and headers
Headers = list[tuple[str, bytes | None]]


def dead_letter_rows(
    letters: Sequence[DeadLetter], pipeline: str, batch: str, message_bytes_max: int
) -> pa.RecordBatch:
    """Rows to write to the topic of dead letters. What is too large for it is cut off, and says so."""
    records = [_record(letter, pipeline, batch, message_bytes_max - FRAME_BYTES) for letter in letters]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _, _ in records], pa.binary()),
            pa.array([value for _, value, _ in records], pa.binary()),
            pa.array(
                [[{"key": name, "value": content} for name, content in headers] for _, _, headers in records],
                HEADERS_TYPE,
            ),
        ],
        names=["key", "value", "headers"],
    )


def _record(
    letter: DeadLetter, pipeline: str, batch: str, size_bytes_max: int
) -> tuple[bytes | None, bytes | None, Headers]:
    facts = _facts(letter, pipeline, batch)
    whole = [*letter.headers, *facts]
    if _size(letter.key, letter.value, whole) <= size_bytes_max:
        return letter.key, letter.value, whole
    key = letter.key if _size(letter.key, None, facts) <= size_bytes_max else None
    facts.append(("truncated", str(len(letter.value or b"")).encode()))
    room = max(0, size_bytes_max - _size(key, None, facts))
    return key, (letter.value or b"")[:room], facts


def _facts(letter: DeadLetter, pipeline: str, batch: str) -> Headers:
    facts = {"error": letter.reason[:REASON_CHARS_MAX], "pipeline": pipeline, "batch": batch}
    if letter.origin is not None:
        place = letter.origin._asdict()
        facts |= {f"origin.{name}": str(content) for name, content in place.items() if content is not None}
    return [(name, content.encode()) for name, content in facts.items()]


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    in_headers = sum(len(name.encode()) + len(content or b"") + 10 for name, content in headers)
    return len(key or b"") + len(value or b"") + in_headers
