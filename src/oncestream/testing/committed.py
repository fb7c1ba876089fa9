"""What a reader of committed records finds in a topic, whole."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from oncestream.errors import RecordsMissing
from oncestream.messaging.record import Record

READ_TIMEOUT_S: Final = 60.0
POLL_S: Final = 1.0


def committed_records(bootstrap_servers: str, topic: str, at_least: int, timeout_s: float) -> list[Record]:
    """By partition and offset. RecordsMissing where there are not `at_least` so many in time."""
    deadline = time.monotonic() + timeout_s
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oncestream.testing",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 2,
        }
    )
    try:
        return sorted(
            _read(reader, topic, at_least, deadline), key=lambda record: (record.partition, record.offset)
        )
    except TimeoutError as late:
        raise RecordsMissing(topic=topic, seconds=timeout_s, reason=str(late)) from None
    finally:
        reader.close()


def _read(reader: Consumer, topic: str, at_least: int, deadline: float) -> list[Record]:
    partitions = _partitions(reader, topic, deadline)
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    found: list[Record] = []
    open_partitions = set(partitions)
    while open_partitions or len(found) < at_least:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{len(found)} of {at_least}" if at_least else f"{len(found)} and more to come"
            )
        message: Any = reader.poll(POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(_record(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        elif not error.retriable():
            raise KafkaException(error)
    return found


def _partitions(reader: Consumer, topic: str, deadline: float) -> list[int]:
    """None where there is no such topic: then nothing is committed to it."""
    told = reader.list_topics(topic, timeout=max(deadline - time.monotonic(), POLL_S)).topics[topic]
    return [] if told.error is not None else sorted(told.partitions)


def _record(message: Any) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
