"""Transactions on a full disk: nothing is decided that is not written, and what was decided is carried out."""

from __future__ import annotations

import pytest

from oncestream.testing.faulty_broker import FaultyBroker
from tests.broker.disk_kit import (
    BEGINS,
    DATA_FULL,
    DECISIONS_FULL,
    FULL,
    SYNC_FAILS,
    TOPIC,
    WORKS,
    Running,
    is_refused,
    lines,
    read_committed,
    transactional,
)
from tests.broker.kit import TIMEOUT_S, Wire, batch, produce, wait_until


def test_a_transaction_that_meets_a_full_disk_is_committed_whole_when_there_is_room(
    faulty: FaultyBroker,
) -> None:
    bootstrap = faulty.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    faulty.set_faults(FULL)
    producer.produce(TOPIC, b"while full")
    commit = Running(lambda: producer.commit_transaction(TIMEOUT_S))
    wait_until(lambda: lines(faulty, BEGINS) == 1)
    with Wire(bootstrap) as wire:
        assert is_refused(wire)
    assert read_committed(bootstrap) == []
    assert commit.is_running
    faulty.set_faults(WORKS)
    commit.join()
    wait_until(lambda: read_committed(bootstrap) == [b"before", b"while full"])


@pytest.mark.parametrize("restart", [False, True], ids=["room", "killed and started on the full disk, room"])
def test_markers_without_room_are_written_when_there_is_some(faulty: FaultyBroker, restart: bool) -> None:
    """The decision is on the disk, so it stands: neither half of it nor another one may come of it."""
    bootstrap = faulty.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"decided")
    assert producer.flush(TIMEOUT_S) == 0
    faulty.set_faults(DATA_FULL)
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: lines(faulty, BEGINS) == 1)
    assert read_committed(bootstrap) == []
    if restart:
        faulty.kill()
        faulty.start()
        assert read_committed(bootstrap) == []
    faulty.set_faults(WORKS)
    wait_until(lambda: read_committed(bootstrap) == [b"decided"])
    producer.begin_transaction()
    producer.produce(TOPIC, b"next")
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read_committed(bootstrap) == [b"decided", b"next"])


def test_a_transaction_whose_end_has_no_room_is_ended_when_there_is_some(faulty: FaultyBroker) -> None:
    bootstrap = faulty.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"decided")
    assert producer.flush(TIMEOUT_S) == 0
    faulty.set_faults(DATA_FULL)
    producer.commit_transaction(TIMEOUT_S)
    faulty.set_faults(DECISIONS_FULL)
    wait_until(lambda: read_committed(bootstrap) == [b"decided"])
    faulty.set_faults(WORKS)
    producer.begin_transaction()
    producer.produce(TOPIC, b"next")
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read_committed(bootstrap) == [b"decided", b"next"])


def test_a_transaction_that_timed_out_on_a_full_disk_is_aborted_when_there_is_room(
    faulty: FaultyBroker,
) -> None:
    bootstrap = faulty.bootstrap_servers
    producer = transactional(bootstrap, timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(TOPIC, b"given up")
    assert producer.flush(TIMEOUT_S) == 0
    faulty.set_faults(DECISIONS_FULL)
    wait_until(lambda: lines(faulty, BEGINS) == 1)  # nobody else writes there: that was the end of its time
    faulty.set_faults(WORKS)
    with Wire(bootstrap) as wire:
        produced = produce(wire, TOPIC, batch(b"outside"))
        assert produced.error_code == 0
    wait_until(lambda: read_committed(bootstrap) == [b"outside"])


def test_a_decision_whose_flush_failed_is_not_told_until_a_restart_has_found_it_on_the_disk(
    faulty: FaultyBroker,
) -> None:
    bootstrap = faulty.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"decided")
    assert producer.flush(TIMEOUT_S) == 0
    faulty.set_faults(SYNC_FAILS)
    commit = Running(lambda: producer.commit_transaction(TIMEOUT_S))
    wait_until(lambda: lines(faulty, "flush failed topic=__transaction_state") == 1)
    faulty.set_faults(WORKS)
    assert read_committed(bootstrap) == []
    assert commit.is_running
    faulty.kill()
    faulty.start()
    commit.join()
    wait_until(lambda: read_committed(bootstrap) == [b"decided"])
