"""From librdkafka's messages to records."""

from __future__ import annotations

from typing import Any

from oncestream.errors import BadRecord
from oncestream.messaging.record import Record
from oncestream.messaging.serializers import Deserializer
from oncestream.messaging.topics import Topics


class Decoder:
    """Makes records; BadRecord where a deserializer fails."""

    def __init__(self, topics: Topics, deserializer: Deserializer, key_deserializer: Deserializer) -> None:
        self._topics = topics
        self._deserializer = deserializer
        self._key_deserializer = key_deserializer

    def record(self, message: Any) -> Record:
        return Record(
            topic=self._topics.shown(message.topic()),
            partition=message.partition(),
            offset=message.offset(),
            timestamp_ms=message.timestamp()[1],
            key=self._decoded(message, "key", self._key_deserializer, message.key()),
            value=self._decoded(message, "value", self._deserializer, message.value()),
            headers=tuple(message.headers() or ()),
        )

    def _decoded(self, message: Any, part: str, deserialize: Deserializer, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return deserialize(data)
        except Exception as error:
            raise BadRecord(
                part=part,
                topic=self._topics.shown(message.topic()),
                partition=message.partition(),
                offset=message.offset(),
                reason=f"{type(error).__name__}: {error}",
            ) from error
