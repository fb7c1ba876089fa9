"""The body of a Produce request, versions 9-12, in pieces: record batches are sent from where they are."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from oncestream.client.topic_partition import TopicPartition
from oncestream.wire.codec import uvarint
from oncestream.wire.schema import Buffer

ACKS_ALL: Final = -1

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_INDEX: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\0"


def produce_body(
    transactional_id: str | None, timeout_ms: int, batches: Iterable[tuple[TopicPartition, Buffer]]
) -> list[Buffer]:
    """One batch for each partition, with acks=all."""
    topics: dict[str, list[tuple[int, Buffer]]] = {}
    for (topic, partition), data in batches:
        topics.setdefault(topic, []).append((partition, data))
    out = bytearray(uvarint(0) if transactional_id is None else _text(transactional_id))
    out += _ACKS_TIMEOUT.pack(ACKS_ALL, timeout_ms)
    out += uvarint(len(topics) + 1)
    chunks: list[Buffer] = []
    for topic, parts in topics.items():
        out += _text(topic)
        out += uvarint(len(parts) + 1)
        for partition, data in parts:
            out += _INDEX.pack(partition)
            out += uvarint(len(data) + 1)
            chunks += (out, data)
            out = bytearray(_NO_TAGS)
        out += _NO_TAGS
    out += _NO_TAGS
    chunks.append(out)
    return chunks


def _text(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data
