"""What a consumer hands out and what a producer is told of a delivery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from oncestream.errors import OncestreamError

# A named producer's name, and the number it gave the record, in decimal digits.
NAME_HEADER: Final = "oncestream.producer"
SEQUENCE_HEADER: Final = "oncestream.sequence"

Header = tuple[str, bytes | None]
# What `send` takes: a mapping, or pairs where a name may come twice.
Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic; key and value as the deserializers made them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[Header, ...] = ()

    def header(self, name: str) -> bytes | None:
        """The last header of this name, as Kafka's own clients choose."""
        return next((value for found, value in reversed(self.headers) if found == name), None)


class Delivery(NamedTuple):
    """What became of a record that was sent: where it is, or why it is nowhere."""

    topic: str
    partition: int
    offset: int
    error: OncestreamError | None = None


def header_list(headers: Headers | None) -> list[Header]:
    """The form in which confluent-kafka takes headers."""
    if headers is None:
        return []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
