"""A broker whose disk is full, or whose flushes fail: real clients wait, lose nothing, and go on by themselves."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oncestream import Broker
from oncestream.testing.apache_kafka import free_ports
from oncestream.testing.disk import DiskFaults
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.kit import (
    TIMEOUT_S,
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    metadata,
    produce,
    values_of,
    wait_until,
)
from tests.broker.numbered import LibrdkafkaProducer
from tests.conftest import CANNOT_RUN_HERE

TOPIC: Final = "events"
WORKS: Final = DiskFaults()
FULL: Final = DiskFaults(room_bytes=0)
DATA_FULL: Final = DiskFaults(room_bytes=0, full_paths=f"*/{TOPIC}-*")
OFFSETS_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__consumer_offsets-*")
DECISIONS_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__transaction_state-*")
CATALOG_FULL: Final = DiskFaults(room_bytes=0, full_paths="*/__cluster_metadata-*")
DATA_SYNC_FAILS: Final = DiskFaults(sync_errors=f"*/{TOPIC}-*")
BEGINS, ENDS = "disk full", "disk has room again"
TMPFS_BYTES: Final = 8 * 1024 * 1024


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker process on a port that stays its own, with one topic."""
    made = FaultyBroker(
        tmp_path / "data",
        listen=f"127.0.0.1:{free_ports(1)[0]}",
        housekeeping_ms=100,
        offsets_partitions=2,
        transaction_partitions=2,
    )
    with made:
        with Wire(made.bootstrap_servers) as wire:
            create_topic(wire, TOPIC)
        yield made
        made.set_faults(WORKS)


def test_an_idempotent_producer_waits_for_room_and_everything_it_was_told_is_there_once(
    broker: FaultyBroker,
) -> None:
    bootstrap = broker.bootstrap_servers
    producer = LibrdkafkaProducer(bootstrap, TOPIC, 1)
    producer.wait_for_more()
    broker.set_faults(DiskFaults(room_bytes=3_000))  # it ends in the middle of a batch
    wait_until(lambda: lines(broker, BEGINS) == 1)
    with Wire(bootstrap) as wire:
        assert is_refused(wire)
        promised = producer.acknowledged[0]
        assert read_some(wire, promised - 1)
    for crash in (broker.kill, broker.stop):  # full when it stops and when it starts
        crash()
        broker.start()
        with Wire(bootstrap) as wire:
            assert is_refused(wire)
            assert read_some(wire, 0)
            assert read_some(wire, producer.acknowledged[0] - 1)
    assert lines(broker, BEGINS) == 3  # one each time it ran
    assert lines(broker, ENDS) == 0
    broker.set_faults(WORKS)
    producer.wait_for_more()
    wait_until(lambda: lines(broker, ENDS) == 1)
    (total,) = producer.finish()
    assert total > promised
    assert [int(value) for value in read_all(bootstrap, total)] == list(range(total))
    assert (lines(broker, BEGINS), lines(broker, ENDS)) == (3, 1)
    assert "Traceback" not in broker.log.read_text()


def test_a_transaction_that_meets_a_full_disk_is_committed_whole_when_there_is_room(
    broker: FaultyBroker,
) -> None:
    bootstrap = broker.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    broker.set_faults(FULL)
    producer.produce(TOPIC, b"while full")
    commit = Running(lambda: producer.commit_transaction(TIMEOUT_S))
    wait_until(lambda: lines(broker, BEGINS) == 1)
    with Wire(bootstrap) as wire:
        assert is_refused(wire)
    assert read_committed(bootstrap) == []
    assert commit.is_running
    broker.set_faults(WORKS)
    commit.join()
    wait_until(lambda: read_committed(bootstrap) == [b"before", b"while full"])


@pytest.mark.parametrize("restart", [False, True], ids=["room", "killed and started on the full disk, room"])
def test_markers_without_room_are_written_when_there_is_some(broker: FaultyBroker, restart: bool) -> None:
    """The decision is on the disk, so it stands: neither half of it nor another one may come of it."""
    bootstrap = broker.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"decided")
    assert producer.flush(TIMEOUT_S) == 0
    broker.set_faults(DATA_FULL)
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: lines(broker, BEGINS) == 1)
    assert read_committed(bootstrap) == []
    if restart:
        broker.kill()
        broker.start()
        assert read_committed(bootstrap) == []
    broker.set_faults(WORKS)
    wait_until(lambda: read_committed(bootstrap) == [b"decided"])
    producer.begin_transaction()
    producer.produce(TOPIC, b"next")
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read_committed(bootstrap) == [b"decided", b"next"])


def test_a_transaction_whose_end_has_no_room_is_ended_when_there_is_some(broker: FaultyBroker) -> None:
    bootstrap = broker.bootstrap_servers
    producer = transactional(bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"decided")
    assert producer.flush(TIMEOUT_S) == 0
    broker.set_faults(DATA_FULL)
    producer.commit_transaction(TIMEOUT_S)
    broker.set_faults(DECISIONS_FULL)
    wait_until(lambda: read_committed(bootstrap) == [b"decided"])
    broker.set_faults(WORKS)
    producer.begin_transaction()
    producer.produce(TOPIC, b"next")
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: read_committed(bootstrap) == [b"decided", b"next"])


def test_a_transaction_that_timed_out_on_a_full_disk_is_aborted_when_there_is_room(
    broker: FaultyBroker,
) -> None:
    bootstrap = broker.bootstrap_servers
    producer = transactional(bootstrap, timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(TOPIC, b"given up")
    assert producer.flush(TIMEOUT_S) == 0
    broker.set_faults(DECISIONS_FULL)
    wait_until(lambda: lines(broker, BEGINS) == 1)  # nobody else writes there: that was the end of its time
    broker.set_faults(WORKS)
    with Wire(bootstrap) as wire:
        produced = produce(wire, TOPIC, batch(b"outside"))
        assert produced.error_code == 0
    wait_until(lambda: read_committed(bootstrap) == [b"outside"])


def test_a_commit_of_offsets_without_room_changes_nothing_and_works_later(broker: FaultyBroker) -> None:
    bootstrap = broker.bootstrap_servers
    with Wire(bootstrap) as wire:
        for number in range(3):
            produce(wire, TOPIC, batch(b"%d" % number))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        commit_offset(consumer, 1)
        broker.set_faults(OFFSETS_FULL)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            commit_offset(consumer, 2)
        assert refused.value.args[0].code() == ErrorCode.NOT_COORDINATOR
        assert committed(consumer) == 1
        broker.set_faults(WORKS)
        commit_offset(consumer, 3)
        assert committed(consumer) == 3
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_without_room_for_its_state_comes_about_when_there_is_some(
    broker: FaultyBroker, protocol: str
) -> None:
    bootstrap = broker.bootstrap_servers
    with Wire(bootstrap) as wire:
        produce(wire, TOPIC, batch(b"v"))
    broker.set_faults(OFFSETS_FULL)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(0.1) is None and lines(broker, BEGINS) == 1)
        broker.set_faults(WORKS)
        values: list[bytes | None] = []

        def came() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                values.append(message.value())
            return bool(values)

        wait_until(came)
        assert values == [b"v"]
        assert committed_after(consumer) == 1
    finally:
        consumer.close()


@pytest.mark.parametrize("full", [CATALOG_FULL, DiskFaults(room_bytes=30, full_paths="*/new-*")])
def test_a_topic_that_cannot_be_made_leaves_nothing_and_can_be_made_later(
    broker: FaultyBroker, full: DiskFaults
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    broker.set_faults(full)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_topics([NewTopic("new", 3)], request_timeout=TIMEOUT_S)["new"].result(TIMEOUT_S)
    assert refused.value.args[0].code() == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(broker.settings.data.glob("new-*")) == []
    with Wire(broker.bootstrap_servers) as wire:
        assert metadata(wire, ["new"])[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.kill()
    broker.start()
    broker.set_faults(WORKS)
    with Wire(broker.bootstrap_servers) as wire:
        assert len(create_topic(wire, "new", 3).partitions) == 3
        assert produce(wire, "new", batch(b"v")).error_code == 0


def test_producer_ids_are_refused_with_an_error_that_clients_try_again(broker: FaultyBroker) -> None:
    broker.set_faults(CATALOG_FULL)
    with Wire(broker.bootstrap_servers) as wire:
        request = InitProducerIdRequest(transactional_id=None)
        refused = wire.ask(request, 4, InitProducerIdResponse)
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        producer = LibrdkafkaProducer(broker.bootstrap_servers, TOPIC, 1)
        broker.set_faults(WORKS)
        producer.wait_for_more()
        producer.finish()
        assert wire.ask(request, 4, InitProducerIdResponse).error_code == 0


def test_a_failed_flush_is_final_until_a_restart_and_only_for_its_partition(broker: FaultyBroker) -> None:
    bootstrap = broker.bootstrap_servers
    with Wire(bootstrap) as wire:
        create_topic(wire, "other")
        assert produce(wire, TOPIC, batch(b"flushed", producer_id=9)).error_code == 0
        broker.set_faults(DATA_SYNC_FAILS)
        failed = produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1))
        assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.set_faults(WORKS)
        again = produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1))
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(fetch(wire, fetch_request(TOPIC)).records) == [b"flushed"]
        assert produce(wire, "other", batch(b"fine")).error_code == 0
    broker.stop()
    broker.start()
    with Wire(bootstrap) as wire:  # recovery decides by what is on the disk: here the record is
        assert produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1)).base_offset == 1
        assert values_of(fetch(wire, fetch_request(TOPIC)).records) == [b"flushed", b"failed"]


def test_a_disk_that_really_runs_full_refuses_reads_on_and_goes_on(tmp_path: Path) -> None:
    with mounted(tmp_path / "small") as disk, Broker(disk / "data", process=True) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            create_topic(wire, TOPIC, configs={"segment.bytes": "1048576"})
            sent = 0
            while (answer := produce(wire, TOPIC, batch(b"v" * 50_000))).error_code == 0:
                assert answer.base_offset == sent
                sent += 1
                assert sent * 50_000 < TMPFS_BYTES
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            while produce(wire, TOPIC, batch(b"v")).error_code == 0:  # to the last byte
                sent += 1
            assert "the disk of the broker is full" in (answer.error_message or "")
            assert read_some(wire, sent - 1)
        broker.kill()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:
            assert is_refused(wire)
            assert fetch(wire, fetch_request(TOPIC)).high_watermark == sent
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        place = confluent_kafka.TopicPartition(TOPIC, 0, sent)
        admin.delete_records([place])[place].result(TIMEOUT_S)  # what makes room needs none
        with Wire(broker.bootstrap_servers) as wire:
            assert produce(wire, TOPIC, batch(b"v" * 50_000)).base_offset == sent
        broker.stop()
        assert (disk / "data" / ".kafka_cleanshutdown").exists()


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
