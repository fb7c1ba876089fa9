"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords, on the embedded broker and on Apache Kafka alike."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from oncestream import Broker
from oncestream.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncestream.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncestream.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.kit import (
    TIMEOUT_S,
    Wire,
    batch,
    create_topic,
    error_name,
    fetch,
    fetch_request,
    metadata,
    produce,
    values_of,
    wait_until,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11, -7: 99}
OFFSETS = {
    MAX_TIMESTAMP: (1010, 1),
    EARLIEST_LOCAL: (-1, 0),
    LATEST_TIERED: (-1, -1),
    PENDING_UPLOAD: (-1, -1),
}


@pytest.fixture
def topic(wire: Wire) -> str:
    """Three records, at 1000, 1010 and 1005 ms."""
    name = create_topic(wire).name or ""
    for timestamp_ms in (1000, 1010, 1005):
        produce(wire, name, batch(b"x", timestamp_ms=timestamp_ms))
    return name


def list_offset(
    wire: Wire, topic: str, timestamp: int, version: int = 7, isolation_level: int = 0, **options: int
) -> ListOffsetsPartitionResponse:
    want = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    for name, value in options.items():
        setattr(want, name, value)
    topics = [ListOffsetsTopic(name=topic, partitions=[want])]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=5_000
    )
    return wire.ask(request, version, ListOffsetsResponse).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_places_are_known_from_their_version_on(wire: Wire, topic: str, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    latest, earliest = list_offset(wire, topic, LATEST, version), list_offset(wire, topic, EARLIEST, version)
    assert (latest.offset, latest.timestamp, latest.leader_epoch) == (3, -1, epoch)
    assert (earliest.offset, earliest.timestamp, earliest.leader_epoch) == (0, -1, epoch)
    for place, first_version in FIRST_VERSION.items():
        answer = list_offset(wire, topic, place, version)
        if version < first_version:
            assert error_name(answer.error_code) == "UNSUPPORTED_VERSION"
            assert answer.offset == -1
        else:
            assert (answer.timestamp, answer.offset) == OFFSETS[place], place


def test_a_time_finds_the_first_record_at_or_after_it(wire: Wire, topic: str) -> None:
    found = {at: list_offset(wire, topic, at) for at in (0, 1000, 1001, 1005, 1010, 1011)}
    places = {at: (answer.timestamp, answer.offset) for at, answer in found.items()}
    second = (1010, 1)
    assert places == {0: (1000, 0), 1000: (1000, 0), 1001: second, 1005: second, 1010: second, 1011: (-1, -1)}


def test_places_in_an_empty_partition(wire: Wire) -> None:
    topic = create_topic(wire).name or ""
    asked = (LATEST, EARLIEST, MAX_TIMESTAMP, 0)
    assert [list_offset(wire, topic, place).offset for place in asked] == [0, 0, -1, -1]


def test_list_offsets_of_an_unknown_partition_or_epoch_is_told(wire: Wire, topic: str) -> None:
    unknown = list_offset(wire, topic, LATEST, partition_index=4)
    assert error_name(unknown.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    newer = list_offset(wire, topic, LATEST, current_leader_epoch=9)
    assert error_name(newer.error_code) == "UNKNOWN_LEADER_EPOCH"


# -- OffsetForLeaderEpoch -----------------------------------------------------------------------


def epoch_end(
    wire: Wire, topic: str, epoch: int, current: int = -1, partition: int = 0
) -> tuple[str, int, int]:
    want = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[want])]
    )
    answer = wire.ask(request, 4, OffsetForLeaderEpochResponse).topics[0].partitions[0]
    return error_name(answer.error_code), answer.leader_epoch, answer.end_offset


def test_the_current_epoch_ends_at_the_end_of_the_log(wire: Wire, topic: str) -> None:
    assert epoch_end(wire, topic, 0) == ("NONE", 0, 3)
    assert epoch_end(wire, topic, 0, current=0) == ("NONE", 0, 3)


def test_epochs_that_never_were_have_no_end(wire: Wire, topic: str) -> None:
    for epoch in (1, 5, -1):
        assert epoch_end(wire, topic, epoch) == ("NONE", -1, -1)
    assert epoch_end(wire, topic, 0, current=9) == ("UNKNOWN_LEADER_EPOCH", -1, -1)
    assert epoch_end(wire, topic, 0, partition=7) == ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1)


def test_a_crash_begins_a_new_epoch_and_a_clean_stop_does_not(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", process=True)
    for epoch, end in enumerate(("kill", "stop", "kill")):
        with broker, Wire(broker.bootstrap_servers) as wire:
            if epoch == 0:
                create_topic(wire, "events")
            told = metadata(wire, ["events"])[0].partitions[0].leader_epoch
            assert told == (0, 1, 1)[epoch]
            produce(wire, "events", batch(b"x"))
            getattr(broker, end)()
    with broker, Wire(broker.bootstrap_servers) as wire:
        assert [epoch_end(wire, "events", epoch) for epoch in (0, 1, 2)] == [
            ("NONE", 0, 1),
            ("NONE", 1, 3),
            ("NONE", 2, 3),
        ]
        old = fetch(wire, fetch_request("events", leader_epoch=1))
        assert error_name(old.error_code) == "FENCED_LEADER_EPOCH"
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == (1, 2)
        diverged = fetch(wire, fetch_request("events", 2, fetched_epoch=0))
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 1)
        assert values_of(diverged.records) == []


# -- DeleteRecords ------------------------------------------------------------------------------


def delete_before(wire: Wire, topic: str, offset: int, partition: int = 0) -> tuple[str, int]:
    want = DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = [DeleteRecordsTopic(name=topic, partitions=[want])]
    answer = wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5_000), 2, DeleteRecordsResponse)
    result = answer.topics[0].partitions[0]
    return error_name(result.error_code), result.low_watermark


def test_records_are_deleted_up_to_the_high_watermark_and_no_further(wire: Wire, topic: str) -> None:
    assert delete_before(wire, topic, 4) == ("OFFSET_OUT_OF_RANGE", -1)
    assert delete_before(wire, topic, -2) == ("OFFSET_OUT_OF_RANGE", -1)
    assert delete_before(wire, topic, 0) == ("NONE", 0)
    assert delete_before(wire, topic, 1) == ("NONE", 1)
    assert delete_before(wire, topic, 0) == ("NONE", 1)
    assert list_offset(wire, topic, EARLIEST).offset == 1
    assert error_name(fetch(wire, fetch_request(topic, 0)).error_code) == "OFFSET_OUT_OF_RANGE"
    assert delete_before(wire, topic, -1) == ("NONE", 3)
    assert delete_before(wire, topic, 2) == ("NONE", 3)
    assert list_offset(wire, topic, EARLIEST).offset == list_offset(wire, topic, LATEST).offset == 3
    assert produce(wire, topic, batch(b"x")).base_offset == 3


def test_an_open_transaction_whose_first_records_are_deleted_holds_readers_at_the_start_of_the_log(
    bootstrap: str, wire: Wire
) -> None:
    topic = create_topic(wire).name or ""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for timestamp_ms in (3000, 1000, 2000, 1000):
        producer.produce(topic, b"x", timestamp=timestamp_ms)
        assert producer.flush(TIMEOUT_S) == 0

    def committed_end() -> tuple[int, int, int, int]:
        """Of ListOffsets, and of a fetch from there: its error, last stable offset, and batches."""
        end = list_offset(wire, topic, LATEST, isolation_level=1).offset
        reading = fetch_request(topic, end)
        reading.isolation_level = 1
        read = fetch(wire, reading)
        return end, read.error_code, read.last_stable_offset, len(values_of(read.records))

    assert committed_end() == (0, 0, 0, 0)
    newest = [list_offset(wire, topic, MAX_TIMESTAMP, isolation_level=level).offset for level in (0, 1)]
    assert newest == [0, -1]
    assert delete_before(wire, topic, 2) == ("NONE", 2)
    assert committed_end() == (2, 0, 2, 0)
    assert delete_before(wire, topic, -1) == ("NONE", 4)
    assert committed_end() == (4, 0, 4, 0)
    producer.produce(topic, b"aborted")
    assert producer.flush(TIMEOUT_S) == 0
    assert committed_end() == (4, 0, 4, 0)
    producer.abort_transaction(TIMEOUT_S)
    reading = fetch_request(topic, 4)
    reading.isolation_level = 1
    wait_until(lambda: fetch(wire, reading).last_stable_offset == 6)
    assert [aborted.first_offset for aborted in fetch(wire, reading).aborted_transactions or ()] == [0]


def test_records_of_an_unknown_partition_cannot_be_deleted(wire: Wire, topic: str) -> None:
    assert delete_before(wire, topic, 0, partition=7) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert delete_before(wire, "no-such-topic", 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)


def test_records_of_a_compacted_topic_can_be_deleted_only_if_it_also_deletes(wire: Wire) -> None:
    for policy, expected in (("compact", ("POLICY_VIOLATION", -1)), ("compact,delete", ("NONE", 1))):
        topic = create_topic(wire, configs={"cleanup.policy": policy}).name or ""
        produce(wire, topic, batch(b"x"))
        assert delete_before(wire, topic, 1) == expected
