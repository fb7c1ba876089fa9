"""Parts that tests of disk faults share: faults, readers and writers, a small real disk."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from oncestream.testing.disk import DiskFaults
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.wire.error_codes import ErrorCode
from tests.broker.kit import TIMEOUT_S, Wire, batch, fetch, fetch_request, produce
from tests.conftest import CANNOT_RUN_HERE

TOPIC: Final = "events"
WORKS: Final = DiskFaults()
FULL: Final = DiskFaults(room_bytes=0)
DATA_FULL: Final = DiskFaults(room_bytes=0, full_paths=f"*/{TOPIC}-*")
OFFSETS_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__consumer_offsets-*")
DECISIONS_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__transaction_state-*")
CATALOG_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__cluster_metadata-*")
SYNC_FAILS: Final = DiskFaults(sync_errors="*")
JOURNAL: Final = "*/.journal-*"
# None of them may be noticed by a client, but for the time that it takes.
JOURNAL_FAULTS: Final = (
    WORKS,
    WORKS,
    DiskFaults(room_bytes=0, full_paths=JOURNAL),
    DiskFaults(room_bytes=50_000, full_paths=JOURNAL),
    DiskFaults(sync_errors=JOURNAL),
    DiskFaults(short_writes=True),
)
BEGINS, ENDS = "disk full", "disk has room again"
TMPFS_BYTES: Final = 8 * 1024 * 1024


class mounted:  # noqa: N801 - used like a function
    """A small disk of its own, where the machine allows one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        self._folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(self._folder)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip(f"{CANNOT_RUN_HERE}a file system of its own cannot be mounted")
        return self._folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], check=True)


class Running:
    """Work in a thread, whose failure is raised by `join`."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self.is_running
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error


def lines(broker: FaultyBroker, text: str) -> int:
    return broker.log.read_text().count(text)


def is_refused(wire: Wire) -> bool:
    return produce(wire, TOPIC, batch(b"refused" * 2_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def read_some(wire: Wire, offset: int) -> bool:
    return bool(fetch(wire, fetch_request(TOPIC, offset)).records)


def transactional(bootstrap: str, timeout_ms: int = 60_000) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "txn",
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def read_committed(bootstrap: str) -> list[bytes]:
    """What is visible now to those who read only what was committed."""
    consumer = _consumer(bootstrap)
    try:
        place = confluent_kafka.TopicPartition(TOPIC, 0, 0)
        consumer.assign([place])
        values: list[bytes] = []
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()


def read_all(bootstrap: str, count: int) -> list[bytes]:
    values = read_committed(bootstrap)
    assert len(values) == count
    return values


def _consumer(bootstrap: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )


def commit_offset(consumer: confluent_kafka.Consumer, offset: int) -> None:
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, offset)], asynchronous=False)


def committed_after(consumer: confluent_kafka.Consumer) -> int:
    consumer.commit(asynchronous=False)
    return committed(consumer)


def committed(consumer: confluent_kafka.Consumer) -> int:
    (place,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], TIMEOUT_S)
    return int(place.offset)
