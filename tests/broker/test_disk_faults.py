"""A broker whose disk is full, or whose flushes fail: real clients wait, lose nothing, and go on by themselves."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncestream import Broker
from oncestream.broker.catalog import Catalog, TopicEntry, drop_topic, put_topic
from oncestream.client.cluster import Cluster
from oncestream.client.configs import alter_topic_configs
from oncestream.client.settings import ClientSettings
from oncestream.storage import reserve
from oncestream.storage.disk import Disk
from oncestream.storage.folder import DataFolder
from oncestream.storage.room import DiskFull
from oncestream.storage.steps import run_here
from oncestream.testing.disk import DiskFaults
from oncestream.testing.faulty_broker import FaultyBroker
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.disk_kit import (
    BEGINS,
    CATALOG_FULL,
    ENDS,
    OFFSETS_FULL,
    SYNC_FAILS,
    TMPFS_BYTES,
    TOPIC,
    WORKS,
    commit_offset,
    committed,
    committed_after,
    is_refused,
    lines,
    mounted,
    read_all,
    read_some,
)
from tests.broker.kit import (
    FETCH_VERSION,
    TIMEOUT_S,
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    is_readable,
    metadata,
    produce,
    values_of,
    wait_until,
)
from tests.broker.numbered import LibrdkafkaProducer


def test_an_idempotent_producer_waits_for_room_and_everything_it_was_told_is_there_once(
    faulty: FaultyBroker,
) -> None:
    bootstrap = faulty.bootstrap_servers
    producer = LibrdkafkaProducer(bootstrap, TOPIC, 1)
    producer.wait_for_more()
    faulty.set_faults(DiskFaults(room_bytes=3_000))  # it ends in the middle of a batch
    wait_until(lambda: lines(faulty, BEGINS) == 1)
    with Wire(bootstrap) as wire:
        assert is_refused(wire)
        promised = producer.acknowledged[0]
        assert read_some(wire, promised - 1)
    for crash in (faulty.kill, faulty.stop):  # full when it stops and when it starts
        crash()
        faulty.start()
        with Wire(bootstrap) as wire:
            assert is_refused(wire)
            assert read_some(wire, 0)
            assert read_some(wire, producer.acknowledged[0] - 1)
    assert lines(faulty, BEGINS) == 3  # one each time it ran
    assert lines(faulty, ENDS) == 0
    faulty.set_faults(WORKS)
    producer.wait_for_more()
    wait_until(lambda: lines(faulty, ENDS) == 1)
    (total,) = producer.finish()
    assert total > promised
    assert [int(value) for value in read_all(bootstrap, total)] == list(range(total))
    assert (lines(faulty, BEGINS), lines(faulty, ENDS)) == (3, 1)
    assert "Traceback" not in faulty.log.read_text()


def test_a_commit_of_offsets_without_room_changes_nothing_and_works_later(faulty: FaultyBroker) -> None:
    bootstrap = faulty.bootstrap_servers
    with Wire(bootstrap) as wire:
        for number in range(3):
            produce(wire, TOPIC, batch(b"%d" % number))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        commit_offset(consumer, 1)
        faulty.set_faults(OFFSETS_FULL)
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            commit_offset(consumer, 2)
        assert refused.value.args[0].code() == ErrorCode.NOT_COORDINATOR
        assert committed(consumer) == 1
        faulty.set_faults(WORKS)
        commit_offset(consumer, 3)
        assert committed(consumer) == 3
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_without_room_for_its_state_comes_about_when_there_is_some(
    faulty: FaultyBroker, protocol: str
) -> None:
    bootstrap = faulty.bootstrap_servers
    with Wire(bootstrap) as wire:
        produce(wire, TOPIC, batch(b"v"))
    faulty.set_faults(OFFSETS_FULL)
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
        wait_until(lambda: consumer.poll(0.1) is None and lines(faulty, BEGINS) == 1)
        faulty.set_faults(WORKS)
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
    faulty: FaultyBroker, full: DiskFaults
) -> None:
    admin = AdminClient({"bootstrap.servers": faulty.bootstrap_servers})
    faulty.set_faults(full)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_topics([NewTopic("new", 3)], request_timeout=TIMEOUT_S)["new"].result(TIMEOUT_S)
    assert refused.value.args[0].code() == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(faulty.settings.data.glob("new-*")) == []
    with Wire(faulty.bootstrap_servers) as wire:
        assert metadata(wire, ["new"])[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    faulty.kill()
    faulty.start()
    faulty.set_faults(WORKS)
    with Wire(faulty.bootstrap_servers) as wire:
        assert len(create_topic(wire, "new", 3).partitions) == 3
        assert produce(wire, "new", batch(b"v")).error_code == 0


def test_producer_ids_are_refused_with_an_error_that_clients_try_again(faulty: FaultyBroker) -> None:
    faulty.set_faults(CATALOG_FULL)
    with Wire(faulty.bootstrap_servers) as wire:
        request = InitProducerIdRequest(transactional_id=None)
        refused = wire.ask(request, 4, InitProducerIdResponse)
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        producer = LibrdkafkaProducer(faulty.bootstrap_servers, TOPIC, 1)
        faulty.set_faults(WORKS)
        producer.wait_for_more()
        producer.finish()
        assert wire.ask(request, 4, InitProducerIdResponse).error_code == 0


def test_a_failed_flush_is_final_until_a_restart_and_only_for_its_partition(faulty: FaultyBroker) -> None:
    bootstrap = faulty.bootstrap_servers
    with Wire(bootstrap) as wire, Wire(bootstrap) as reader:
        create_topic(wire, "other")
        assert produce(wire, TOPIC, batch(b"flushed", producer_id=9)).error_code == 0
        waiting = fetch_request(TOPIC, 1, wait_ms=60_000)
        reader.send(waiting, FETCH_VERSION)
        assert not is_readable(reader.sock, 0.1)
        faulty.set_faults(SYNC_FAILS)
        failed = produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1))
        assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for told in (
            reader.receive(FetchResponse, FETCH_VERSION),
            reader.ask(waiting, FETCH_VERSION, FetchResponse),
        ):
            assert told.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        faulty.set_faults(WORKS)
        again = produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1))
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(fetch(wire, fetch_request(TOPIC)).records) == [b"flushed"]
        assert produce(wire, "other", batch(b"fine")).error_code == 0
    faulty.stop()
    faulty.start()
    with Wire(bootstrap) as wire:  # recovery decides by what is on the disk: here the record is
        assert produce(wire, TOPIC, batch(b"failed", producer_id=9, sequence=1)).base_offset == 1
        assert values_of(fetch(wire, fetch_request(TOPIC)).records) == [b"flushed", b"failed"]


def test_a_start_removes_what_a_kill_left_of_a_topic_in_the_making_and_nothing_else(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC)
        produce(wire, TOPIC, batch(b"v"))
    for name in ("empty-0", "half-0", "written-0", "photos-2024"):
        (tmp_path / name).mkdir()
    for name in ("half-0", "written-0"):
        shutil.copy(tmp_path / f"{TOPIC}-0" / "partition.metadata", tmp_path / name)
        (tmp_path / name / f"{0:020d}.log").touch()
    (tmp_path / "written-0" / f"{0:020d}.log").write_bytes(b"records")
    (tmp_path / "photos-2024" / "cat.jpg").touch()
    with Broker(tmp_path):
        folders = sorted(path.name.partition(".")[0] for path in tmp_path.iterdir() if path.is_dir())
    assert folders == ["__cluster_metadata-0", f"{TOPIC}-0", "photos-2024", "written-0"]
    assert len(list(tmp_path.glob("*-stray"))) == 2


class TightDisk(Disk):
    """Has the room that a file holds back, and no more."""

    def __init__(self, held_back: Path) -> None:
        self.is_full = False
        self._held_back = held_back

    def write(self, fd: int, data: memoryview | bytes | bytearray, position: int) -> int:
        if self.is_full and self._held_back.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data, position)


def test_changes_that_make_room_get_what_was_held_back_for_them(tmp_path: Path) -> None:
    held_back = tmp_path / reserve.FILE_NAME
    disk = TightDisk(held_back)
    folder = DataFolder.open(tmp_path, clock_ms=lambda: 0, disk=disk)
    catalog = Catalog.open(folder)
    entry = TopicEntry("t", bytes(16), 1)
    catalog.commit([put_topic(entry)])
    disk.is_full = True
    with pytest.raises(DiskFull):
        catalog.commit([put_topic(TopicEntry("more", bytes(16), 1))])
    assert held_back.stat().st_size == reserve.RESERVE_BYTES
    catalog.commit([drop_topic(entry)], makes_room=True)
    assert catalog.topics == {}
    assert not held_back.exists()
    disk.is_full = False
    run_here(folder.checkpoint())
    assert held_back.stat().st_size == reserve.RESERVE_BYTES
    folder.close()


def delete_records(bootstrap: str, end_offset: int) -> None:
    place = confluent_kafka.TopicPartition(TOPIC, 0, end_offset)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([place])[place].result(TIMEOUT_S)


def delete_topic(bootstrap: str, _end_offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(TIMEOUT_S)


def shorten_retention(bootstrap: str, _end_offset: int) -> None:
    cluster = Cluster(ClientSettings.of(bootstrap))
    try:
        alter_topic_configs(cluster, {TOPIC: {"retention.bytes": "1048576"}})
    finally:
        cluster.close()


@pytest.mark.parametrize("make_room", [delete_records, delete_topic, shorten_retention])
def test_a_disk_that_really_runs_full_refuses_reads_on_and_goes_on(
    tmp_path: Path, make_room: Callable[[str, int], None]
) -> None:
    """Everything by which an operator makes room works without any."""
    with (
        mounted(tmp_path / "small") as disk,
        Broker(disk / "data", process=True, housekeeping_ms=200) as broker,
    ):
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
            while not is_refused(wire):  # the journal's room, until there is another
                sent += 1
            assert fetch(wire, fetch_request(TOPIC)).high_watermark == sent
        make_room(broker.bootstrap_servers, sent)
        with Wire(broker.bootstrap_servers) as wire:
            if make_room is delete_topic:
                create_topic(wire, TOPIC)
                sent = 0
            wait_until(lambda: produce(wire, TOPIC, batch(b"v" * 50_000)).error_code == 0)
            assert fetch(wire, fetch_request(TOPIC, sent)).high_watermark == sent + 1
        broker.stop()
        assert (disk / "data" / ".kafka_cleanshutdown").exists()
