"""What is stored of a stream: a JSON record of the compacted topic `oncestream.streams`, its key the path. Pure.

Beside the attributes it carries what a broker needs to make a topic on first use (`auto_create`,
`default_partitions`, `topic_configs`), in Kafka's words, so that the broker knows nothing of attributes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import uuid4

from oncestream.errors import BadStreamAttribute, DescriptorUnreadable
from oncestream.streams.attributes import StreamAttributes
from oncestream.streams.names import StreamPath

VERSION: Final = 1


class State(StrEnum):
    """A stream that is being made or deleted is not shown; the same call again finishes the work."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """`writer` differs in every record, so that whoever wrote one recognises it."""

    path: StreamPath
    attributes: StreamAttributes
    state: State
    revision: int
    owner: str
    created_ms: int
    edited_ms: int
    writer: str = field(default_factory=lambda: uuid4().hex)

    def changed(self, state: State, attributes: StreamAttributes, now_ms: int) -> Descriptor:
        return Descriptor(
            path=self.path,
            attributes=attributes,
            state=state,
            revision=self.revision + 1,
            owner=self.owner,
            created_ms=self.created_ms,
            edited_ms=now_ms,
        )

    def encode(self) -> bytes:
        value = {
            "version": VERSION,
            "state": self.state,
            "revision": self.revision,
            "owner": self.owner,
            "created_ms": self.created_ms,
            "edited_ms": self.edited_ms,
            "writer": self.writer,
            "attributes": self.attributes.as_dict(),
            "auto_create": self.attributes.auto_create and self.state is State.READY,
            "default_partitions": self.attributes.default_partitions,
            "topic_configs": self.attributes.topic_configs(),
        }
        return json.dumps(value).encode()


def decode(path: StreamPath, value: bytes) -> Descriptor:
    """DescriptorUnreadable where it is of a newer version, or no descriptor at all."""
    try:
        found = json.loads(value)
        if found["version"] != VERSION:
            raise DescriptorUnreadable(path=path, reason=f"it is of version {found['version']}")
        return Descriptor(
            path=path,
            attributes=StreamAttributes(**found["attributes"]),
            state=State(found["state"]),
            revision=int(found["revision"]),
            owner=str(found["owner"]),
            created_ms=int(found["created_ms"]),
            edited_ms=int(found["edited_ms"]),
            writer=str(found["writer"]),
        )
    except (ValueError, TypeError, KeyError, BadStreamAttribute) as error:
        raise DescriptorUnreadable(path=path, reason=f"{type(error).__name__}: {error}") from error
