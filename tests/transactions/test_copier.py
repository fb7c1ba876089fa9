"""Kafka's own transactions system test, re-made: a topic is copied while brokers and copiers are bounced."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncestream import Broker
from oncestream.testing.ports import free_address
from tests.clients.confluent import Confluent
from tests.effort import effort
from tests.transactions.copier import Task

PARTITIONS: Final = 2
COPIERS: Final = 2
TRANSACTION_SIZE: Final = 750
PROGRESS_TIMEOUT_S: Final = 60
REPOSITORY: Final = Path(__file__).parents[2]
SETTINGS: Final[dict[str, object]] = {
    "group_session_timeout_ms_min": 1_000,
    "consumer_group_session_timeout_ms": 2_000,
    "consumer_group_heartbeat_interval_ms": 300,
}


@dataclass
class BouncedBroker:
    """A broker in a process of its own that comes back on its old port."""

    data: Path
    address: str = field(default_factory=free_address)

    def start(self) -> None:
        self.broker = Broker(self.data, process=True, listen=self.address, **SETTINGS).start()

    def bounce(self, *, hard: bool) -> None:
        if hard:
            self.broker.kill()
        else:
            self.broker.stop()
        self.start()


@dataclass
class BouncedCopier:
    """A copier process; it must never end by itself."""

    task: Task

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.transactions.copier", json.dumps(asdict(self.task))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def bounce(self, *, hard: bool) -> None:
        self.stop(hard=hard)
        self.start()

    def stop(self, *, hard: bool) -> None:
        self.check()
        self.process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
        _, said = self.process.communicate(timeout=PROGRESS_TIMEOUT_S)
        assert self.process.returncode == (-signal.SIGKILL if hard else 0), said

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def check(self) -> None:
        assert self.process.poll() is None, self.process.communicate()[1]


@dataclass
class Reader:
    """Reads a topic as committed, in a thread, while it is written; what it saw, per partition."""

    bootstrap: str
    topic: str
    seen: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.seen))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        while not self._stop.is_set():
            for message in consumer.consume(1_000, 0.1):
                if message.error() is None:
                    self.seen[message.partition() or 0].append(int(message.value() or b""))
        consumer.close()


def seed(bootstrap: str, count: int) -> list[list[int]]:
    """Numbered records into the input topic; what went into each partition."""
    admin = Confluent(bootstrap)
    for topic in ("input", "output"):
        admin.create_topic(topic, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "queue.buffering.max.messages": count + 1,
        }
    )
    for number in range(count):
        producer.produce("input", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PROGRESS_TIMEOUT_S) == 0
    return [list(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)]


def differences(sent: list[int], seen: list[int]) -> str:
    """What is wrong with what was seen, in a line: the lists are too long to print."""
    if sent == seen:
        return ""
    lost = sorted(set(sent) - set(seen))
    twice = sorted(number for number, times in Counter(seen).items() if times > 1)
    at = next(
        (place for place, pair in enumerate(zip(sent, seen, strict=False)) if pair[0] != pair[1]), len(seen)
    )
    around = f"from place {at} on {seen[at : at + 5]}, not {sent[at : at + 5]}"
    return f"{len(lost)} lost {lost[:5]}, {len(twice)} more than once {twice[:5]}; {around}"


def wait_for(reader: Reader, copiers: list[BouncedCopier], count: int) -> None:
    deadline = time.monotonic() + PROGRESS_TIMEOUT_S
    while reader.count < count:
        for copier in copiers:
            copier.check()
        assert time.monotonic() < deadline, f"{reader.count} of {count} were copied, no more came"
        time.sleep(0.01)


@contextmanager
def running(broker: BouncedBroker, group_protocol: str) -> Iterator[list[BouncedCopier]]:
    tasks = [
        Task(
            broker.address, "input", "output", "copiers", f"copier-{number}", TRANSACTION_SIZE,
            session_timeout_ms=2_000, group_protocol=group_protocol,
        )
        for number in range(COPIERS)
    ]  # fmt: skip
    copiers = [BouncedCopier(task) for task in tasks]
    with ExitStack() as stack:
        for copier in copiers:
            copier.start()
            stack.callback(copier.end)
        yield copiers
        for copier in copiers:
            copier.stop(hard=False)


def copy_under_bounces(
    folder: Path, count: int, rounds: int, *, target: str, hard: bool, group_protocol: str
) -> None:
    broker = BouncedBroker(folder)
    broker.start()
    try:
        sent = seed(broker.address, count)
        with Reader(broker.address, "output") as concurrent:
            with running(broker, group_protocol) as copiers:
                for number in range(1, rounds + 1):
                    wait_for(concurrent, copiers, number * count // (rounds + 1))
                    for bounced in [broker] if target == "broker" else copiers:
                        bounced.bounce(hard=hard)
                wait_for(concurrent, copiers, count)
            with Reader(broker.address, "output") as final:
                wait_for(final, [], count)
        for reader in (final, concurrent):
            assert [differences(*pair) for pair in zip(sent, reader.seen, strict=True)] == [""] * PARTITIONS
    finally:
        broker.broker.stop()


BOUNCES = [
    pytest.param("broker", True, id="broker-hard"),
    pytest.param("broker", False, id="broker-clean"),
    pytest.param("copiers", True, id="copiers-hard"),
    pytest.param("copiers", False, id="copiers-clean"),
]


@pytest.mark.slow
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
@pytest.mark.parametrize(("target", "hard"), BOUNCES)
def test_a_copy_is_exact_under_bounces(tmp_path: Path, target: str, hard: bool, group_protocol: str) -> None:
    count, rounds = effort((10_000, 2), soak=(200_000, 10))
    copy_under_bounces(tmp_path, count, rounds, target=target, hard=hard, group_protocol=group_protocol)
