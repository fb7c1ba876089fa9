"""Transactions while the broker is killed: every one is there as a whole or not at all, and none twice."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest

from oncestream.storage.journal import BATCH_BYTES_MAX
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.testing.ports import free_address
from tests.broker.disk_kit import JOURNAL_FAULTS
from tests.clients.confluent import Confluent as Admin
from tests.clients.conftest import wait_until
from tests.clients.transactional_producers import Confluent
from tests.effort import effort

PARTITIONS = 3
RECORDS = 6
SIZES = [0, 0, 0, 500, 10_000, BATCH_BYTES_MAX]  # bytes of a value; the last is too large for the journal
COMMITS_PER_ROUND = 3


@dataclass
class Copier:
    """One transaction after another, until it is told to stop; it remembers what it was told."""

    bootstrap: str
    name: str
    committed: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None
    chance: random.Random = field(default_factory=lambda: random.Random(RECORDS))

    def run(self) -> None:
        try:
            number = 0
            while not self.stop.is_set():
                number = self.session(number)
        except BaseException as error:
            self.failure = error

    def session(self, number: int) -> int:
        """A producer's life: until something goes wrong that it cannot go on after."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": self.name, "log_level": 0}
        )
        try:
            producer.init_transactions(30)
        except confluent_kafka.KafkaException:
            return number
        while not self.stop.is_set():
            number += 1
            commit = number % 5 != 0
            try:
                self.transaction(producer, number, commit)
            except confluent_kafka.KafkaException:
                return number
        return number

    def transaction(self, producer: confluent_kafka.Producer, number: int, commit: bool) -> None:
        producer.begin_transaction()
        for record in range(RECORDS):
            value = f"{self.name}:{number}:{record}".ljust(self.chance.choice(SIZES))
            producer.produce("t", value.encode(), partition=record % PARTITIONS)
        if not commit:
            self.aborted.add(number)
            producer.flush(30)
            producer.abort_transaction(30)
            return
        self.unknown.add(number)
        producer.commit_transaction(30)
        self.unknown.discard(number)
        self.committed.add(number)


def check(bootstrap: str, copiers: list[Copier]) -> None:
    for copier in copiers:
        assert copier.failure is None, copier.failure
        Confluent(bootstrap, copier.name).close()  # whoever initialises the id ends what was left open
    reader = Confluent(bootstrap, "reader")
    seen: Counter[str] = Counter()
    for partition in range(PARTITIONS):
        seen.update(value.decode() for value in reader.read("t", partition, committed=True))
    assert set(seen.values()) <= {1}, "a record is there twice"
    whole = Counter(value.rpartition(":")[0] for value in seen)
    for copier in copiers:
        visible = {int(key.split(":")[1]) for key in whole if key.startswith(copier.name + ":")}
        assert copier.committed <= visible, "a committed transaction is lost"
        assert visible <= copier.committed | copier.unknown, "an aborted transaction is seen"
    assert set(whole.values()) <= {RECORDS}, "a transaction is there in part"


def run(folder: Path, rounds: int, durability: str, seconds_max: float) -> list[Copier]:
    chance = random.Random(rounds)
    listen = free_address()
    broker = FaultyBroker(folder / "data", durability=durability, listen=listen)
    broker.start()
    Admin(listen).create_topic("t", PARTITIONS)
    copiers = [Copier(listen, f"copier-{i}") for i in range(2)]
    threads = [threading.Thread(target=copier.run) for copier in copiers]
    for thread in threads:
        thread.start()
    pause = threading.Event()
    try:
        for number in range(rounds):
            # On a busy machine a round is as long as its commits take.
            wait_until(partial(_has_gone_on, copiers, COMMITS_PER_ROUND * number))
            broker.set_faults(chance.choice(JOURNAL_FAULTS))
            pause.wait(chance.uniform(0.2, seconds_max))
            broker.kill()
            broker.start()
        wait_until(lambda: all(copier.committed for copier in copiers) or _has_failed(copiers))
    finally:
        for copier in copiers:
            copier.stop.set()
        for thread in threads:
            thread.join(90)
        try:
            check(listen, copiers)
        finally:
            broker.stop()
    return copiers


def _commits(copiers: list[Copier]) -> int:
    return sum(len(copier.committed) for copier in copiers)


def _has_gone_on(copiers: list[Copier], commits: int) -> bool:
    return _commits(copiers) >= commits or _has_failed(copiers)


def _has_failed(copiers: list[Copier]) -> bool:
    return any(copier.failure for copier in copiers)


@pytest.mark.parametrize("durability", ["fsync", pytest.param("os", marks=pytest.mark.slow)])
def test_transactions_stay_whole_when_the_broker_is_killed(tmp_path: Path, durability: str) -> None:
    rounds = effort(8, soak=300)
    copiers = run(tmp_path, rounds, durability, seconds_max=1)
    assert _commits(copiers) > 2 * rounds
