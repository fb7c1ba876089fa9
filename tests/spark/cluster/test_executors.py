"""Executors and workers that are killed while they write, or while others read what they shuffled."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tests.spark.cluster.driver import SHUFFLED_TASKS, Kind, Work
from tests.spark.cluster.kit import Driver, Hold, wait_for
from tests.spark.sink_kit import committed, new_name
from tests.spark.source_kit import Log, log_ends

ROWS = 160_000
FILLER = "x" * 60


@pytest.fixture(scope="module")
def source(log: Log) -> str:
    """Two partitions of some megabytes each."""
    topic = log.topic(2)
    for partition in range(2):
        log.write(topic, (value_of(number) for number in range(partition, ROWS, 2)), partition=partition)
    return topic


def value_of(number: int) -> str:
    """All of one length, so that a second run's batches have the first one's sequence numbers, whatever is in them."""
    return f"{number:06d} {FILLER}"


def held_job(driver: Driver, log: Log, kind: Kind, source: str, partitions: int) -> tuple[Work, Hold]:
    hold, name = Hold(driver.folder), new_name()
    read = {"minPartitions": str(SHUFFLED_TASKS)} if kind is Kind.SHUFFLE else {}
    checkpoint = str(driver.folder / name)
    return (
        Work(kind, log.bootstrap, source, log.topic(partitions), checkpoint, str(hold.file), name, read),
        hold,
    )


def check_exact(log: Log, sink: str) -> None:
    found = Counter(record.text for record in committed(log.bootstrap, sink))
    assert found == Counter(value_of(number).upper() for number in range(ROWS))


def check_something_was_aborted(log: Log, sink: str) -> None:
    """Otherwise the kill came too early to prove anything."""
    markers_max = 20
    assert sum(log_ends(log.bootstrap, sink).values()) > ROWS + markers_max


def test_an_executor_killed_while_it_writes(local_cluster: Driver, log: Log, source: str) -> None:
    work, hold = held_job(local_cluster, log, Kind.HOLD, source, partitions=2)
    local_cluster.start(work)
    wait_for(lambda: sum(log_ends(log.bootstrap, work.sink).values()) > 0)
    victim = local_cluster.executors()[hold.wait()["executor"]]
    os.kill(victim, signal.SIGKILL)
    hold.release()
    (outcome,) = local_cluster.finish()
    assert outcome["path"] == "tasks"
    assert outcome["attempts"] >= 2
    check_exact(log, work.sink)
    check_something_was_aborted(log, work.sink)


def test_a_worker_killed_while_it_writes(local_cluster: Driver, log: Log, source: str) -> None:
    work, hold = held_job(local_cluster, log, Kind.HOLD, source, partitions=2)
    local_cluster.start(work)
    worker = hold.wait()["worker"]
    wait_for(lambda: sum(log_ends(log.bootstrap, work.sink).values()) > 0)
    os.kill(worker, signal.SIGKILL)
    hold.release()
    (outcome,) = local_cluster.finish()
    assert outcome["attempts"] >= 2
    check_exact(log, work.sink)
    check_something_was_aborted(log, work.sink)


def test_an_executor_killed_whose_shuffled_rows_another_one_reads(
    local_cluster: Driver, log: Log, source: str
) -> None:
    """Spark would run the lost half again, and the reading task too, from its first row."""
    work, hold = held_job(local_cluster, log, Kind.SHUFFLE, source, partitions=1)
    local_cluster.start(work)
    reader = hold.wait()["executor"]
    wait_for(lambda: sum(log_ends(log.bootstrap, work.sink).values()) > 0)
    (victim,) = (pid for executor, pid in local_cluster.executors().items() if executor != reader)
    os.kill(victim, signal.SIGKILL)
    hold.release()
    (outcome,) = local_cluster.finish()
    assert outcome["attempts"] >= 2
    check_exact(log, work.sink)
    check_something_was_aborted(log, work.sink)
