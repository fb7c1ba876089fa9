"""The subject of a certificate as Java prints it (RFC 2253), which is the name Kafka knows its owner by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0
_SUBJECT: Final = 4  # its place after serial number, algorithm, issuer and validity


class _Element(NamedTuple):
    tag: int
    whole: bytes
    content: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER; ValueError if there is none."""
    try:
        (outer,) = _elements(certificate)
        body = next(_elements(outer.content))
        fields = [each for each in _elements(body.content) if each.tag != _VERSION]
        parts = [_relative_name(part.content) for part in _elements(fields[_SUBJECT].content)]
    except (ValueError, IndexError, StopIteration) as error:
        raise ValueError("the subject of the client's certificate cannot be read") from error
    return ",".join(reversed(parts))


def _relative_name(content: bytes) -> str:
    pairs = []
    for pair in _elements(content):
        kind, value = _elements(pair.content)
        number = _object_id(kind.content)
        keyword = _KEYWORDS.get(number)
        if keyword is None or value.tag not in _TEXTS:
            pairs.append(f"{keyword or number}=#{value.whole.hex()}")
        else:
            pairs.append(f"{keyword}={_escape(value.content.decode(_TEXTS[value.tag], 'replace'))}")
    return "+".join(pairs)


def _escape(text: str) -> str:
    bare = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    if not bare:
        before, after = len(text), 0
    inner = "".join("\\00" if c == "\0" else f"\\{c}" if c in _ESCAPED else c for c in bare)
    return "\\ " * before + inner + "\\ " * after


def _object_id(content: bytes) -> str:
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[_Element]:
    """The elements that stand one after another in DER."""
    position = 0
    while position < len(data):
        start = position
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        yield _Element(tag, data[start : position + size], data[position : position + size])
        position += size
