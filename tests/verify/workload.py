"""Clients at work while a history is written: transactions that commit or abort, and readers of committed records."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.history import History, HistoryWriter
from oncestream.verify.recorder import RecordedConsumer, RecordedProducer

RECORDS_EACH: Final = 5
ABORTED_SHARE: Final = 0.3
DEADLINE_S: Final = 60.0


def run_workload(
    folder: Path,
    settings: Mapping[str, Any],
    partitions: list[TopicPartition],
    *,
    producers: int = 2,
    transactions: int = 30,
    seed: int = 1,
) -> History:
    """Each producer runs its transactions while a consumer reads, until that has seen all they committed."""
    failures: list[BaseException] = []
    committed: dict[str, set[int]] = {}
    done = threading.Event()

    def produce(number: int) -> None:
        try:
            name = f"{partitions[0].topic}-p{number}"
            committed[name] = _produce(
                folder, name, settings, partitions, transactions, seed + number, number
            )
        except BaseException as error:
            failures.append(error)

    def consume() -> None:
        try:
            _consume(folder, settings, partitions, committed, producers, done)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
    reader = threading.Thread(target=consume)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join(DEADLINE_S)
    done.set()
    reader.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in (reader, *writers))
    if failures:
        raise failures[0]
    return History.of_folder(folder)


def _produce(
    folder: Path,
    name: str,
    settings: Mapping[str, Any],
    partitions: list[TopicPartition],
    transactions: int,
    seed: int,
    number: int,
) -> set[int]:
    """Answers what it committed."""
    chance = random.Random(seed)
    value = number * 1_000_000
    committed: set[int] = set()
    with HistoryWriter(folder / f"{name}.jsonl") as history:
        producer = RecordedProducer(history, name, settings, transactional_id=name)
        for each in range(transactions):
            producer.begin()
            for _ in range(RECORDS_EACH):
                value += 1
                producer.send(chance.choice(partitions), value)
            if each < transactions - 1 and chance.random() < ABORTED_SHARE:
                producer.flush()  # else librdkafka drops what it has not sent yet
                producer.abort()
            else:
                producer.commit()
                committed.update(range(value - RECORDS_EACH + 1, value + 1))
        producer.flush()
    return committed


def _consume(
    folder: Path,
    settings: Mapping[str, Any],
    partitions: list[TopicPartition],
    committed: Mapping[str, set[int]],
    producers: int,
    done: threading.Event,
) -> None:
    name = f"{partitions[0].topic}-c"
    deadline = time.monotonic() + DEADLINE_S
    seen: set[int | None] = set()
    with HistoryWriter(folder / f"{name}.jsonl") as history:
        consumer = RecordedConsumer(history, name, settings)
        consumer.assign(dict.fromkeys(partitions, 0))
        while not (
            done.is_set()
            and (len(committed) < producers or seen.issuperset(set().union(*committed.values())))
        ):
            assert time.monotonic() < deadline, "not all records came"
            seen.update(record.value for record in consumer.poll(100, 0.1))
        consumer.close()
