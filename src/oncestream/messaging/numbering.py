"""Numbers of a named producer's records: a resend after a restart can be told from a new record.

A number is larger than all before it of the same name, topic and partition; what lies between them means nothing.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, Final

import confluent_kafka

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import ClientMisused
from oncestream.messaging.failures import Faults, KafkaError
from oncestream.messaging.record import NAME_HEADER, SEQUENCE_HEADER, Header
from oncestream.messaging.settings import Access

WINDOW: Final = 1_000  # records of the first look back; each further one is four times as long
SEARCH_MAX: Final = 100_000
TIMEOUT_S: Final = 60.0


class Numbering:
    """One producer's numbers, by partition."""

    def __init__(
        self,
        name: str,
        access: Access,
        faults: Faults,
        *,
        window: int = WINDOW,
        search_max: int = SEARCH_MAX,
    ) -> None:
        self._name = name
        self._access = access
        self._faults = faults
        self._window = window
        self._search_max = search_max
        self._sent: dict[TopicPartition, int] = {}

    def headers(self, partition: TopicPartition, sequence: int | None) -> list[Header]:
        """For the next record; `sequence` is the number that the application gives it.

        Where the log tells no number (a new name, or its records are gone) the time in microseconds is the
        first: larger than what any earlier run can have counted to, so that nobody takes new records for old.
        """
        if sequence is None:
            last = self.last(partition)
            sequence = time.time_ns() // 1000 if last is None else last + 1
        elif sequence <= self._sent.get(partition, -1):
            raise ClientMisused(
                what=f"sending number {sequence} to {partition}",
                reason=f"number {self._sent[partition]} was sent before it, and numbers must rise",
            )
        self._sent[partition] = sequence
        return [(NAME_HEADER, self._name.encode()), (SEQUENCE_HEADER, b"%d" % sequence)]

    def last(self, partition: TopicPartition) -> int | None:
        """The highest number so far, in this process or in the log."""
        sent = self._sent.get(partition)
        return self._in_log(partition) if sent is None else sent

    def _in_log(self, partition: TopicPartition) -> int | None:
        config = {
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # Also what an open transaction holds back, and aborted records: their numbers are used up.
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
        }
        with (
            closing(self._access.build(confluent_kafka.Consumer, self._faults, config)) as reader,
            self._faults.translated("reading the last number", str(partition), TIMEOUT_S),
        ):
            place = confluent_kafka.TopicPartition(*partition)
            low, high = reader.get_watermark_offsets(place, timeout=TIMEOUT_S)
            end, size = high, self._window
            while end > max(low, high - self._search_max):
                start = max(low, end - size)
                found = self._highest(reader, partition, start, end)
                if found is not None:
                    return found
                end, size = start, size * 4
        return None

    def _highest(self, reader: Any, partition: TopicPartition, start: int, end: int) -> int | None:
        reader.assign([confluent_kafka.TopicPartition(*partition, start)])
        highest: int | None = None
        deadline = time.monotonic() + TIMEOUT_S
        position = start
        while position < end:
            message = reader.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                raise confluent_kafka.KafkaException(KafkaError(KafkaError._TIMED_OUT))
            error = message.error()
            if error is None:
                position = message.offset() + 1
                number = self._number(message.headers() or ()) if message.offset() < end else None
                highest = max(highest or 0, number) if number is not None else highest
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise confluent_kafka.KafkaException(error)
        return highest

    def _number(self, headers: Any) -> int | None:
        found = dict(headers)
        sequence = found.get(SEQUENCE_HEADER)
        if found.get(NAME_HEADER) != self._name.encode() or sequence is None or not sequence.isdigit():
            return None
        return int(sequence)
