"""Dead letters as records: the input as it was, the reason and the origin in headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from oncestream.spark.outlet import DeadLetter

REASON_CHARS_MAX: Final = 4000
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def dead_letter_rows(letters: Sequence[DeadLetter], pipeline: str, batch: str) -> pa.RecordBatch:
    """Rows to write to the topic of dead letters."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([letter.key for letter in letters], pa.binary()),
            pa.array([letter.value for letter in letters], pa.binary()),
            pa.array([_headers(letter, pipeline, batch) for letter in letters], _HEADERS),
        ],
        names=["key", "value", "headers"],
    )


def _headers(letter: DeadLetter, pipeline: str, batch: str) -> list[dict[str, object]]:
    facts = {"error": letter.reason[:REASON_CHARS_MAX], "pipeline": pipeline, "batch": batch}
    if letter.origin is not None:
        facts |= {
            "origin.topic": str(letter.origin.topic),
            "origin.partition": str(letter.origin.partition),
            "origin.offset": str(letter.origin.offset),
        }
    headers: list[dict[str, object]] = [{"key": key, "value": value} for key, value in letter.headers]
    return headers + [{"key": key, "value": value.encode()} for key, value in facts.items()]
