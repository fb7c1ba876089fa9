"""A tortured client that reads, and writes what it read together with its offsets, in transactions."""

from __future__ import annotations

import random
import threading
from typing import Any, Final

from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.history import Record
from oncestream.verify.recorder import RecordedConsumer, RecordedProducer
from oncestream.verify.torture_numbers import TRIES_MAX, copy_number
from oncestream.verify.torture_transactions import end_after, insist

POLL_S: Final = 0.2
SIZE_MAX: Final = 200
ABORTED_SHARE: Final = 0.15
CALL_TIMEOUT_S: Final = 30.0


def copy(
    producer: RecordedProducer,
    consumer: RecordedConsumer,
    sink: str,
    name: tuple[int, int],
    dice: random.Random,
    stop: threading.Event,
) -> None:
    """`name`: the numbers of the copier and its life. Partitions stay the same.

    What was read before the group moved belongs to another member now. And librdkafka forgets its member id in
    the background when the group has thrown it out: a commit without one is fenced by nobody. So the member is
    taken before the poll, and what was polled as nobody is thrown away.
    """
    attempt = 0
    while not stop.is_set() and attempt + SIZE_MAX < TRIES_MAX:
        before = consumer.assignments
        member: Any = consumer.client.consumer_group_metadata()
        is_member = bool(consumer.client.memberid())
        try:
            records = consumer.poll(dice.randint(1, SIZE_MAX), POLL_S)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            _rewind(consumer)
            continue
        if not records:
            continue
        is_member = is_member and consumer.assignments == before
        values, attempt = copies_of(records, name, attempt + 1)
        aborts = dice.random() < ABORTED_SHARE
        if not (is_member and _commit(producer, consumer, member, _moved(records, sink), values, aborts)):
            _rewind(consumer)


def copies_of(records: list[Record], name: tuple[int, int], attempt: int) -> tuple[list[int], int]:
    """A number that a wrong log has twice becomes two copies, as of two tries; answers the last try too."""
    copies: list[int] = []
    seen: set[int] = set()
    for record in records:
        number = record.value or 0
        if number in seen:
            attempt += 1
            seen.clear()
        seen.add(number)
        copies.append(copy_number(*name, attempt, number))
    return copies, attempt


def _commit(
    producer: RecordedProducer,
    consumer: RecordedConsumer,
    member: Any,
    places: list[TopicPartition],
    values: list[int],
    aborts: bool,
) -> bool:
    """One transaction; whether it is committed."""
    producer.begin()
    try:
        for place, value in zip(places, values, strict=True):
            producer.send(place, value)
        producer.send_offsets(consumer, member)
        if aborts:
            producer.flush()
            insist(producer.abort)
        else:
            insist(producer.commit)
    except KafkaException as error:
        end_after(error, producer)
        return False
    return not aborts


def _moved(records: list[Record], sink: str) -> list[TopicPartition]:
    return [TopicPartition(sink, record.partition) for record in records]


def _rewind(consumer: RecordedConsumer) -> None:
    """Back to what is committed. Where that fails this life ends: going on would skip records."""
    assigned = consumer.client.assignment()
    for place in consumer.client.committed(assigned, CALL_TIMEOUT_S) if assigned else ():
        if place.error is not None:
            raise KafkaException(place.error)
        consumer.seek(TopicPartition(place.topic, place.partition), max(0, place.offset))
