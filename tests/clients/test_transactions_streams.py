"""A Kafka Streams application that counts words exactly once, while it and the broker are killed."""

from __future__ import annotations

import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncestream import Broker
from oncestream.errors import JarsUnavailable, JavaUnavailable
from oncestream.testing.kafka_jars import KAFKA_STREAMS, TOOL_OPTIONS, java_command
from oncestream.testing.ports import free_address
from tests.clients.confluent import Confluent
from tests.conftest import CANNOT_RUN_HERE

pytestmark = pytest.mark.java

PROGRAM: Final = Path(__file__).parent / "java" / "WordCounts.java"
PARTITIONS: Final = 3
WORDS: Final = [f"word-{number}" for number in range(40)]
WORDS_PER_LINE: Final = 5
PROGRESS_TIMEOUT_S: Final = 60


@pytest.fixture
def command() -> Callable[[str, Path], list[str]]:
    """The command line of the application."""
    try:
        java_command(jars=KAFKA_STREAMS)
    except (JavaUnavailable, JarsUnavailable) as missing:
        pytest.skip(f"{CANNOT_RUN_HERE}{missing.cause_text}")
    return lambda bootstrap, state: java_command(
        str(PROGRAM), bootstrap, str(state), options=TOOL_OPTIONS, jars=KAFKA_STREAMS
    )


class Application:
    """The Streams application as a process."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        assert self._process.poll() is None, self._log.read_text()[-3000:]


class Counts:
    """What a committed reader sees of the counts: of each word 1, 2, 3 ... and nothing else."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[str, int] = defaultdict(int)
        self.total = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITIONS)])

    def wait_for(self, total: int, application: Application) -> None:
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while self.total < total:
            application.check()
            assert time.monotonic() < deadline, f"{self.total} of {total} words were counted, no more came"
            self.take(0.2)

    def take(self, seconds: float) -> None:
        for message in self._consumer.consume(1_000, seconds):
            if message.error() is None:
                word = (message.key() or b"").decode()
                self.seen[word] += 1
                self.total += 1
                assert int(message.value() or b"") == self.seen[word], f"{word} was counted wrong"

    def close(self) -> None:
        self._consumer.close()


def write_lines(bootstrap: str, count: int, chance: random.Random, expected: dict[str, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        words = chance.choices(WORDS, k=WORDS_PER_LINE)
        for word in words:
            expected[word] += 1
        producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
    assert producer.flush(PROGRESS_TIMEOUT_S) == 0


def test_word_counts_are_exact_though_application_and_broker_are_killed(
    command: Callable[[str, Path], list[str]], tmp_path: Path
) -> None:
    address = free_address()
    broker = Broker(
        tmp_path / "data", process=True, listen=address, group_session_timeout_ms_min=1_000
    ).start()
    admin = Confluent(address)
    for topic in ("lines", "counts"):
        admin.create_topic(topic, PARTITIONS)
    chance, expected, counts = random.Random(1), defaultdict[str, int](int), Counts(address)
    application = Application(command(address, tmp_path / "state"), tmp_path / "application.log")
    try:
        for ending in ("application", "application", "broker", "nothing"):
            done = counts.total
            write_lines(address, 4_000, chance, expected)
            counts.wait_for((done + sum(expected.values())) // 2, application)
            if ending == "application":
                application.kill()
                application.start()
            elif ending == "broker":
                broker.kill()
                broker.start()
        counts.wait_for(sum(expected.values()), application)
        counts.take(1)
        assert counts.seen == expected
        topics = admin.topics()
        assert topics["word-counts-words-repartition"] == PARTITIONS
        assert topics["word-counts-counts-changelog"] == PARTITIONS
    finally:
        counts.close()
        application.kill()
        broker.stop()
