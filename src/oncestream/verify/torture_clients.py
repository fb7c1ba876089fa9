"""The clients of a torture run, each a process: `python -m oncestream.verify.torture_clients '{"role": ...}'`.

SIGTERM ends one between two transactions. An error of Kafka that a client cannot survive ends its life only.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from oncestream.client.topic_partition import TopicPartition
from oncestream.messaging.settings import ONE_IN_FLIGHT
from oncestream.verify.history import HistoryWriter
from oncestream.verify.recorder import RecordedConsumer, RecordedProducer
from oncestream.verify.torture_copier import copy
from oncestream.verify.torture_numbers import COUNT_MAX, input_number
from oncestream.verify.torture_transactions import end_after, insist

LIFE_OVER: Final = 75  # the exit code of a client that met an error it cannot survive
TRANSACTION_TIMEOUT_MS: Final = 8_000
SESSION_TIMEOUT_MS: Final = 6_000
REQUEST_TIMEOUT_MS: Final = 5_000
FLUSH_S: Final = 60.0
PARENT_LOOK_S: Final = 1.0
COMMIT_EVERY_S: Final = 1.0
PAUSE_S_MAX: Final = 0.06
RECORDS_MAX: Final = 12
ABORTED_SHARE: Final = 0.2
LEFT_OPEN_SHARE: Final = 0.003
HALF_WAY_SHARE: Final = 0.01  # of records
HALF_WAY_S_MAX: Final = 1.0
SEEK_SHARE: Final = 0.005


class Role(StrEnum):
    """What a client does all the time."""

    WRITER = "writer"  # transactions over several partitions
    SENDER = "sender"  # records without transactions, idempotent
    COPIER = "copier"  # reads, and writes what it read together with its offsets, as a member of a group
    READER = "reader"  # reads committed records as a member of a group
    WATCHER = "watcher"  # reads all partitions from their beginning, and now and then again


@dataclass(frozen=True, slots=True)
class Task:
    """One life of one client. `process` is its name in the history, which no other life has."""

    role: Role
    number: int
    life: int
    bootstrap: str
    inputs: str
    copies: str
    partitions: int
    history: str
    seed: int

    @property
    def process(self) -> str:
        return f"{self.role}-{self.number}.{self.life}"

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.inputs, number) for number in range(self.partitions)]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> Task:
        content = json.loads(text)
        return Task(**{**content, "role": Role(content["role"])})


def copier_group(inputs: str) -> str:
    return f"{inputs}.copiers"


def end_with_parent() -> None:
    """A run that is killed leaves no process behind. The last argument is its process id."""
    parent = int(sys.argv[-1])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def main() -> int:
    end_with_parent()
    task = Task.of_json(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    file = Path(task.history) / f"{task.process}.jsonl"
    with HistoryWriter(file) as history:
        try:
            _WORK[task.role](task, history, stop)
        except (KafkaException, SystemError) as error:
            # confluent-kafka loses its way where a callback comes after a fatal error: the cause is what counts.
            if isinstance(error, SystemError) and not isinstance(error.__cause__, KafkaException):
                raise
            sys.stderr.write(f"{task.process}: {error!r}\n")
            return LIFE_OVER
    return 0


def _write(task: Task, history: HistoryWriter, stop: threading.Event) -> None:
    dice = _dice(task)
    count = 0
    own = {**_settings(task), "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    name = f"{task.inputs}.{task.role}-{task.number}"
    producer = RecordedProducer(history, task.process, own, transactional_id=name)
    while not stop.wait(dice.uniform(0, PAUSE_S_MAX)) and count + RECORDS_MAX < COUNT_MAX:
        try:
            producer.begin()
            for _ in range(dice.randint(1, RECORDS_MAX)):
                count += 1
                producer.send(dice.choice(task.places), input_number(task.number, task.life, count))
                if dice.random() < HALF_WAY_SHARE:
                    producer.flush()  # so that faults find transactions of which a part is written
                    stop.wait(dice.uniform(0, HALF_WAY_S_MAX))
            chance = dice.random()
            if chance < LEFT_OPEN_SHARE:
                producer.flush()
                return  # the next life, or the transaction's timeout, has to clear up
            if chance < ABORTED_SHARE:
                if dice.random() < 0.5:
                    producer.flush()  # else librdkafka drops what it has not sent yet
                insist(producer.abort)
            else:
                insist(producer.commit)
        except KafkaException as error:
            end_after(error, producer)


def _send(task: Task, history: HistoryWriter, stop: threading.Event) -> None:
    dice = _dice(task)
    count = 0
    producer = RecordedProducer(history, task.process, {**_settings(task), **ONE_IN_FLIGHT})
    while not stop.wait(dice.uniform(0, PAUSE_S_MAX)) and count + RECORDS_MAX < COUNT_MAX:
        for _ in range(dice.randint(1, RECORDS_MAX)):
            count += 1
            producer.send(dice.choice(task.places), input_number(task.number, task.life, count))
    deadline = time.monotonic() + FLUSH_S
    while producer.flush() and time.monotonic() < deadline:
        pass


def _copy(task: Task, history: HistoryWriter, stop: threading.Event) -> None:
    own = {**_settings(task), "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    name = f"{task.inputs}.{task.role}-{task.number}"
    producer = RecordedProducer(history, task.process, own, transactional_id=name)
    member = {**_settings(task), **_member(copier_group(task.inputs), "classic")}
    consumer = RecordedConsumer(history, task.process, member, of=producer)
    consumer.subscribe([task.inputs])
    copy(producer, consumer, task.copies, (task.number, task.life), _dice(task), stop)
    consumer.close()


def _read(task: Task, history: HistoryWriter, stop: threading.Event) -> None:
    """Odd ones are in a group of the new protocol, even ones in one of the old."""
    protocol = "consumer" if task.number % 2 else "classic"
    member = _member(f"{task.inputs}.{protocol}-readers", protocol)
    consumer = RecordedConsumer(history, task.process, {**_settings(task), **member})
    consumer.subscribe([task.inputs, task.copies])
    committed = time.monotonic()
    while not stop.is_set():
        _poll(consumer)
        if time.monotonic() - committed > COMMIT_EVERY_S:
            committed = time.monotonic()
            with suppress(KafkaException):  # a rebalance, or no broker: those after it read again
                consumer.commit()
    consumer.close()


def _watch(task: Task, history: HistoryWriter, stop: threading.Event) -> None:
    dice = _dice(task)
    everywhere = task.places + [place._replace(topic=task.copies) for place in task.places]
    consumer = RecordedConsumer(history, task.process, _settings(task))
    consumer.assign(dict.fromkeys(everywhere, 0))
    while not stop.is_set():
        _poll(consumer)
        if dice.random() < SEEK_SHARE:
            place = dice.choice(everywhere)
            back = consumer.positions().get(place, 0) - dice.randrange(200)
            with suppress(KafkaException):  # it is not being read at the moment
                consumer.seek(place, max(0, back))
    consumer.close()


def _poll(consumer: RecordedConsumer) -> None:
    try:
        consumer.poll(500, 0.2)
    except KafkaException as error:
        if error.args[0].fatal():
            raise


def _settings(task: Task) -> dict[str, Any]:
    return {
        "bootstrap.servers": task.bootstrap,
        "client.id": task.process,
        "log_level": 3,
        "linger.ms": 1,
        "socket.timeout.ms": REQUEST_TIMEOUT_MS,
        "reconnect.backoff.max.ms": 1000,
        # A librdkafka that re-bootstraps waits for ever for the old group coordinator (its issue 5511).
        "metadata.recovery.strategy": "none",
    }


def _member(group: str, protocol: str) -> dict[str, Any]:
    session = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1000}
    return {"group.id": group, "group.protocol": protocol, **(session if protocol == "classic" else {})}


def _dice(task: Task) -> random.Random:
    return random.Random(f"{task.seed}/{task.process}")  # noqa: S311 - to be repeated, not to be secret


_WORK: Final[dict[Role, Callable[[Task, HistoryWriter, threading.Event], None]]] = {
    Role.WRITER: _write,
    Role.SENDER: _send,
    Role.COPIER: _copy,
    Role.READER: _read,
    Role.WATCHER: _watch,
}

if __name__ == "__main__":
    sys.exit(main())
