"""What streams say of topics about to be made: the newest record of each stream in `oncestream.streams`.

Clients write those records (streams/descriptor.py); of their JSON the broker reads three fields, in Kafka's words.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from oncestream.broker import topic_configs
from oncestream.records.batch import parse_header
from oncestream.records.records import Record, records_of
from oncestream.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Topic

STREAMS_TOPIC: Final = "oncestream.streams"

logger = logging.getLogger("oncestream.broker")


class StreamRule(NamedTuple):
    auto_create: bool
    partitions: int
    configs: Mapping[str, str]


class StreamRules:
    """Read when a topic is about to be made: of the log, what has come since the last time."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._rules: dict[str, StreamRule] = {}
        self._read_of = b""
        self._position = 0

    def of(self, topic: str) -> StreamRule | None:
        """The rule of the stream that the topic's name puts it in; None where there is no such stream."""
        prefix, dot, _ = topic.rpartition(".")
        if not dot or STREAMS_TOPIC not in self._topics:
            return None
        self._read(self._topics[STREAMS_TOPIC])
        return self._rules.get("/" + prefix.replace(".", "/"))

    def _read(self, topic: Topic) -> None:
        log = topic.partitions[0].log
        if topic.id != self._read_of:
            self._rules, self._read_of, self._position = {}, topic.id, log.start_offset
        for batch in log.batches(max(self._position, log.start_offset)):
            header = parse_header(batch)
            if not header.is_control:
                for record in records_of(batch, header):
                    self._take(record)
            self._position = header.next_offset

    def _take(self, record: Record) -> None:
        path = (record.key or b"").decode(errors="replace")
        self._rules.pop(path, None)
        if record.value is None:
            return
        try:
            value = json.loads(record.value)
            configs = {str(name): str(setting) for name, setting in value["topic_configs"].items()}
            topic_configs.validate(configs)
            self._rules[path] = StreamRule(
                value["auto_create"] is True, max(1, int(value["default_partitions"])), configs
            )
        except (ValueError, TypeError, KeyError, AttributeError, KafkaError) as error:
            logger.warning(
                "description of a stream ignored stream=%s offset=%d: %s", path, record.offset, error
            )
