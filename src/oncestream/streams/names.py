"""Names of streams and their topics: `/apps/pump:warning` is the Kafka topic `apps.pump.warning`. Pure.

Parts hold no dot, so the last dot of a Kafka name splits the topic from the path, both ways, without loss.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from oncestream.errors import BadStreamName

LENGTH_MAX: Final = 249  # of a Kafka topic's name
RESERVED_ROOT: Final = "oncestream"  # the topics that this package keeps for itself are named oncestream.*
RESERVED_START: Final = "__"  # so are named the topics that Kafka keeps for itself
ALL_TOPICS: Final = "*"

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_KAFKA_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, order=True)
class StreamPath:
    """The path of a stream, such as `/apps/pump`; BadStreamName where it cannot be one."""

    text: str

    def __post_init__(self) -> None:
        if not self.text.startswith("/"):
            raise _bad(self.text, "the path of a stream begins with /")
        parts = self.text[1:].split("/")
        for part in parts:
            _check_part(self.text, part)
        if parts[0] == RESERVED_ROOT:
            raise _bad(self.text, f"/{RESERVED_ROOT} is reserved")
        if len(self.prefix) >= LENGTH_MAX:
            raise _bad(self.text, _too_long(len(self.prefix) + 1))

    def __str__(self) -> str:
        return self.text

    @property
    def prefix(self) -> str:
        """What the Kafka names of its topics begin with, the last dot included."""
        return self.text[1:].replace("/", ".") + "."

    def topic(self, name: str) -> str:
        """The Kafka name of one of its topics."""
        _check_part(f"{self.text}:{name}", name)
        kafka_name = self.prefix + name
        if len(kafka_name) > LENGTH_MAX:
            raise _bad(f"{self.text}:{name}", _too_long(len(kafka_name)))
        return kafka_name

    def topic_name(self, kafka_topic: str) -> str | None:
        """The name that a Kafka topic has in this stream; None where it is not of this stream."""
        name = kafka_topic.removeprefix(self.prefix)
        is_own = kafka_topic.startswith(self.prefix) and _is_part(name)
        return name if is_own else None

    def is_above(self, other: StreamPath) -> bool:
        return other.text.startswith(f"{self.text}/")


def parse_topic(text: str) -> str:
    """The Kafka topic of `/apps/pump:warning`; the name of a plain Kafka topic is returned as it is."""
    if text.startswith("/"):
        path, colon, name = text.partition(":")
        if not colon:
            raise _bad(text, "it names a stream and no topic; a topic is /path/of/stream:topic")
        return StreamPath(path).topic(name)
    if not _KAFKA_NAME.fullmatch(text) or text in (".", ".."):
        raise _bad(text, "it is neither /path/of/stream:topic nor the name of a Kafka topic")
    if len(text) > LENGTH_MAX:
        raise _bad(text, _too_long(len(text)))
    return text


def display_name(kafka_topic: str) -> str:
    """`/apps/pump:warning` of `apps.pump.warning`; what cannot be in a stream is returned as it is."""
    found = split_topic(kafka_topic)
    return kafka_topic if found is None else f"{found[0]}:{found[1]}"


def split_topic(kafka_topic: str) -> tuple[StreamPath, str] | None:
    """The stream that a Kafka topic is in, if there is such a stream, and its name there."""
    path, dot, name = kafka_topic.rpartition(".")
    if not dot or not _is_part(name) or len(kafka_topic) > LENGTH_MAX:
        return None
    try:
        return StreamPath("/" + path.replace(".", "/")), name
    except BadStreamName:
        return None


def topic_pattern(text: str) -> str:
    """A regular expression of the Kafka topics that `/apps/pump:*`, or one topic's name, stands for."""
    path, _, name = text.partition(":")
    if path.startswith("/") and name == ALL_TOPICS:
        return re.escape(StreamPath(path).prefix) + f"(?!{RESERVED_START}){_PART.pattern}"
    return re.escape(parse_topic(text))


def is_whole_stream(text: str) -> bool:
    return text.startswith("/") and text.endswith(f":{ALL_TOPICS}")


def _is_part(text: str) -> bool:
    return _PART.fullmatch(text) is not None and not text.startswith(RESERVED_START)


def _check_part(whole: str, part: str) -> None:
    if _is_part(part):
        return
    if not part:
        raise _bad(whole, "one of its parts is empty")
    if part.startswith(RESERVED_START):
        raise _bad(whole, f"names that begin with {RESERVED_START} are reserved")
    raise _bad(whole, f"{part!r} holds more than letters, digits, '_' and '-'")


def _too_long(length: int) -> str:
    return f"its Kafka name has {length} characters, {LENGTH_MAX} are allowed"


def _bad(name: str, reason: str) -> BadStreamName:
    shown = name if len(name) <= LENGTH_MAX else f"{name[:LENGTH_MAX]}..."
    return BadStreamName(name=shown, reason=reason)
