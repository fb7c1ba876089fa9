"""A process that copies a topic in transactions: `python -m tests.transactions.copier '{"bootstrap": ...}'`.

Output partition and value are those of the input. Once it has said `ready`, SIGTERM ends it between two transactions.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from oncestream.messaging.starts import with_starts

CALL_TIMEOUT_S: Final = 60
POLL_S: Final = 0.2
ABORTED_PART: Final = 0.2


@dataclass(frozen=True, slots=True)
class Task:
    """What one copier does; `transactional_id` is its own, the group is shared."""

    bootstrap: str
    source: str
    sink: str
    group: str
    transactional_id: str
    transaction_size: int
    session_timeout_ms: int
    group_protocol: str


def copy(task: Task, stop: threading.Event) -> None:
    """Copies until it is told to stop. An error that a transaction cannot survive ends the process."""
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "transactional.id": task.transactional_id,
            "transaction.timeout.ms": 40_000,
            "linger.ms": 1,
            # A librdkafka that re-bootstraps waits for ever for the old group coordinator (its issue 5511).
            "metadata.recovery.strategy": "none",
        }
    )
    consumer = _consumer(task)
    producer.init_transactions(CALL_TIMEOUT_S)
    moved = threading.Event()

    def take_over(consumer: Consumer, given: list[TopicPartition]) -> None:
        moved.set()
        starts = with_starts(consumer, given, latest=False)
        (consumer.assign if task.group_protocol == "classic" else consumer.incremental_assign)(starts)

    # What was read before the group moved belongs to another member now. And librdkafka forgets its member id
    # in the background when the group has thrown it out: a commit without one is fenced by nobody.
    consumer.subscribe(
        [task.source],
        on_assign=take_over,
        on_revoke=lambda *_: moved.set(),
        on_lost=lambda *_: moved.set(),
    )
    while not stop.is_set():
        moved.clear()
        member = consumer.consumer_group_metadata()
        is_member = bool(consumer.memberid())
        messages = [m for m in consumer.consume(task.transaction_size, POLL_S) if m.error() is None]
        is_member = is_member and not moved.is_set()
        if messages and not (is_member and _commit(producer, member, task.sink, messages)):
            _rewind(consumer)
    consumer.close()


def _consumer(task: Task) -> Consumer:
    own_session = {"session.timeout.ms": task.session_timeout_ms, "heartbeat.interval.ms": 300}
    return Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "group.protocol": task.group_protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(own_session if task.group_protocol == "classic" else {}),
        }
    )


def _commit(producer: Producer, member: object, sink: str, messages: list[Message]) -> bool:
    """One transaction, committed or not, as the member that the group knew before the messages were read."""
    ends = {(str(m.topic()), int(m.partition() or 0)): int(m.offset() or 0) + 1 for m in messages}
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(sink, message.value(), partition=int(message.partition() or 0))
            producer.poll(0)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()],
            member,
            CALL_TIMEOUT_S,
        )
        if random.random() < ABORTED_PART:
            _abort(producer)
            return False
        _insist(lambda: producer.commit_transaction(CALL_TIMEOUT_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _abort(producer)
        return False
    return True


def _abort(producer: Producer) -> None:
    producer.flush(CALL_TIMEOUT_S)  # an abort that reaches the log is worth more than one that does not
    _insist(lambda: producer.abort_transaction(CALL_TIMEOUT_S))


def _insist(call: Callable[[], None]) -> None:
    """Whether a commit took may be unknown while the broker is away: ask again, never the other thing."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _rewind(consumer: Consumer) -> None:
    """Back to what is committed; a partition that was lost meanwhile needs none of it."""
    for position in consumer.committed(consumer.assignment(), CALL_TIMEOUT_S):
        if position.error is not None:
            raise KafkaException(position.error)
        with suppress(KafkaException):
            consumer.seek(TopicPartition(position.topic, position.partition, max(0, position.offset)))


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    copy(Task(**json.loads(sys.argv[1])), stop)


if __name__ == "__main__":
    main()
