"""Fetch as any client can tell it, on the embedded broker and on Apache Kafka alike."""

from __future__ import annotations

import resource
import threading
import time

import confluent_kafka
import pytest

from oncestream.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    FETCH_VERSION,
    TIMEOUT_S,
    Wire,
    batch,
    batches_in,
    create_topic,
    error_name,
    fetch,
    fetch_request,
    is_readable,
    metadata,
    new_name,
    produce,
    values_of,
    wait_until,
)

VALUE = b"x" * 1000


@pytest.fixture
def topic(wire: Wire) -> str:
    """Ten batches of one record each."""
    name = create_topic(wire).name or ""
    for _ in range(10):
        produce(wire, name, batch(VALUE))
    return name


def test_every_version_answers_the_records(wire: Wire) -> None:
    made = create_topic(wire)
    produce(wire, made.name or "", batch(b"one", b"two"))
    for version in range(4, 19):
        request = fetch_request(made.name or "", leader_epoch=made.partitions[0].leader_epoch)
        request.topics[0].topic_id = made.topic_id
        answer = wire.ask(request, version, FetchResponse).responses[0]
        assert (answer.topic, answer.topic_id) == ((made.name, bytes(16)), ("", made.topic_id))[version >= 13]
        partition = answer.partitions[0]
        assert (partition.partition_index, partition.error_code) == (0, 0)
        assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
        assert values_of(partition.records) == [b"one", b"two"]


def test_offsets_outside_the_log_are_out_of_range(wire: Wire, topic: str) -> None:
    for offset in (11, 2**40, -5):
        answer = fetch(wire, fetch_request(topic, offset))
        assert error_name(answer.error_code) == "OFFSET_OUT_OF_RANGE", offset
        assert values_of(answer.records) == []
    assert fetch(wire, fetch_request(topic, 10)).error_code == 0


def test_an_unknown_topic_partition_or_id_is_told(wire: Wire, topic: str) -> None:
    unknown = fetch(wire, fetch_request(new_name()))
    assert error_name(unknown.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    beyond = fetch(wire, fetch_request(topic, partition=7))
    assert error_name(beyond.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    request = fetch_request("")
    request.topics[0].topic_id = bytes(range(16))
    answer = wire.ask(request, 13, FetchResponse).responses[0].partitions[0]
    assert error_name(answer.error_code) == "UNKNOWN_TOPIC_ID"


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown(wire: Wire, topic: str) -> None:
    epoch = metadata(wire, [topic])[0].partitions[0].leader_epoch
    newer = fetch(wire, fetch_request(topic, leader_epoch=epoch + 1))
    assert error_name(newer.error_code) == "UNKNOWN_LEADER_EPOCH"
    assert fetch(wire, fetch_request(topic, leader_epoch=epoch)).error_code == 0
    assert fetch(wire, fetch_request(topic, fetched_epoch=epoch)).error_code == 0


def test_a_fetch_inside_a_batch_answers_the_whole_batch(wire: Wire) -> None:
    topic = create_topic(wire).name or ""
    produce(wire, topic, batch(b"a", b"b", b"c"))
    produce(wire, topic, batch(b"d"))
    assert values_of(fetch(wire, fetch_request(topic, 2)).records) == [b"a", b"b", b"c", b"d"]


def test_the_first_batch_comes_whole_however_small_the_limits(wire: Wire, topic: str) -> None:
    for limits in ({"max_bytes": 1}, {"partition_bytes": 1}, {"max_bytes": 0, "partition_bytes": 0}):
        records = bytes(fetch(wire, fetch_request(topic, **limits)).records or b"")
        assert len(batches_in(records)) == 1, limits
        assert len(records) == len(batches_in(records)[0])


def test_limits_on_bytes_are_honoured_beyond_the_first_batch(wire: Wire, topic: str) -> None:
    size = len(batch(VALUE))
    for limits in ({"max_bytes": 3 * size + 20}, {"partition_bytes": 3 * size + 20}):
        records = bytes(fetch(wire, fetch_request(topic, **limits)).records or b"")
        assert len(records) <= 3 * size + 20
        assert len(batches_in(records)) == 3


def test_the_limit_of_the_answer_holds_over_all_partitions(wire: Wire) -> None:
    topic = create_topic(wire, partitions=3).name or ""
    for partition in range(3):
        produce(wire, topic, batch(VALUE), partition=partition)
        produce(wire, topic, batch(VALUE), partition=partition)
    request = fetch_request(topic, max_bytes=1)
    wanted = [FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1_000_000) for i in range(3)]
    request.topics = [FetchTopic(topic=topic, partitions=wanted)]
    answer = wire.ask(request, FETCH_VERSION, FetchResponse)
    parts = answer.responses[0].partitions
    assert [part.high_watermark for part in parts] == [2, 2, 2]
    assert [len(values_of(part.records)) for part in parts] == [1, 0, 0]


def test_without_data_a_fetch_waits_as_long_as_it_may(wire: Wire, topic: str) -> None:
    began = time.monotonic()
    answer = fetch(wire, fetch_request(topic, 10, wait_ms=300))
    assert 0.28 <= time.monotonic() - began < 10
    assert (answer.error_code, values_of(answer.records)) == (0, [])


def test_min_bytes_0_does_not_wait(wire: Wire, topic: str) -> None:
    began = time.monotonic()
    fetch(wire, fetch_request(topic, 10, wait_ms=60_000, min_bytes=0))
    assert time.monotonic() - began < 30


def test_too_few_bytes_are_answered_when_the_wait_is_over(wire: Wire, topic: str) -> None:
    began = time.monotonic()
    answer = fetch(wire, fetch_request(topic, 9, wait_ms=300, min_bytes=1_000_000))
    assert time.monotonic() - began >= 0.28
    assert values_of(answer.records) == [VALUE]


def test_an_error_in_one_partition_ends_the_wait(wire: Wire) -> None:
    topic = create_topic(wire, partitions=2).name or ""
    request = fetch_request(topic, wait_ms=60_000)
    request.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=9, partition_max_bytes=1))
    began = time.monotonic()
    answer = wire.ask(request, FETCH_VERSION, FetchResponse).responses[0].partitions
    assert time.monotonic() - began < 15
    assert {part.partition_index: error_name(part.error_code) for part in answer} == {
        0: "NONE",
        1: "OFFSET_OUT_OF_RANGE",
    }


def test_a_long_poll_wakes_on_the_append_that_fills_min_bytes(bootstrap: str, wire: Wire) -> None:
    topic = create_topic(wire).name or ""
    size = len(batch(VALUE))
    answered: list[int] = []

    def poll() -> None:
        with Wire(bootstrap) as other:
            request = fetch_request(topic, wait_ms=60_000, min_bytes=3 * size)
            answered.append(len(values_of(fetch(other, request).records)))

    poller = threading.Thread(target=poll)
    poller.start()
    for _ in range(3):
        assert not answered
        produce(wire, topic, batch(VALUE))
    poller.join(20)
    assert answered == [3]


def test_a_waiting_fetch_whose_file_cannot_be_opened_fails_alone(
    start_broker: StartBroker, connect: Connect
) -> None:
    """A waiting fetch must answer its error itself: the producer that woke it has done nothing wrong."""
    broker = start_broker(process=True, durability="os", open_files_max=16, housekeeping_ms=600_000)
    reader, writer = connect(broker.bootstrap_servers), connect(broker.bootstrap_servers)
    topic = create_topic(writer, configs={"segment.bytes": str(1 << 20)}).name or ""
    others = create_topic(writer, partitions=16).name or ""
    large = b"x" * 700_000
    abort(broker.bootstrap_servers, topic, large)
    assert produce(writer, topic, batch(large)).base_offset == 2  # in a segment of its own
    waiting = fetch_request(topic, wait_ms=60_000, min_bytes=1 << 25)
    waiting.isolation_level = 1
    reader.send(waiting, FETCH_VERSION)
    assert not is_readable(reader.sock, 0.1)
    for partition in range(16):
        produce(writer, others, batch(VALUE), partition=partition)
    fetch(writer, fetch_request(topic))  # opens the records' files, not the index of aborted transactions
    limits = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
    assert produce(writer, topic, batch(VALUE)).base_offset == 3
    (failed,) = reader.receive(FetchResponse, FETCH_VERSION).responses[0].partitions
    assert (error_name(failed.error_code), failed.records) == ("KAFKA_STORAGE_ERROR", b"")
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limits)
    waiting.min_bytes = 1
    assert values_of(fetch(reader, waiting).records)[-1] == VALUE


def test_aborted_transactions_are_told_of_what_is_fetched(
    start_broker: StartBroker, connect: Connect
) -> None:
    bootstrap = start_broker().bootstrap_servers
    wire = connect(bootstrap)
    topic = create_topic(wire).name or ""
    abort(bootstrap, topic, b"0", b"2", b"4")
    wait_until(lambda: fetch(wire, fetch_request(topic)).last_stable_offset == 6)
    for options, aborted in (
        ({}, [0, 2, 4]),
        ({"partition_bytes": 1}, [0]),
        ({"partition_bytes": 1, "offset": 2}, [2]),
    ):
        request = fetch_request(topic, **options)
        request.isolation_level = 1
        told = fetch(wire, request).aborted_transactions or ()
        assert [transaction.first_offset for transaction in told] == aborted


def abort(bootstrap: str, topic: str, *values: bytes) -> None:
    """Each value in an aborted transaction of its own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for value in values:
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0
        producer.abort_transaction(TIMEOUT_S)


def test_an_unknown_fetch_session_is_told(wire: Wire, topic: str) -> None:
    request = fetch_request(topic)
    request.session_id, request.session_epoch = 12345, 5
    answer = wire.ask(request, FETCH_VERSION, FetchResponse)
    assert error_name(answer.error_code) == "FETCH_SESSION_ID_NOT_FOUND"
    assert answer.responses == []


def test_a_full_fetch_of_a_new_session_is_answered(wire: Wire, topic: str) -> None:
    request = fetch_request(topic)
    request.session_epoch = 0
    answer = wire.ask(request, FETCH_VERSION, FetchResponse)
    assert answer.error_code == 0
    assert len(values_of(answer.responses[0].partitions[0].records)) == 10


def test_a_fetch_of_nothing_is_answered(wire: Wire) -> None:
    answer = wire.ask(FetchRequest(max_wait_ms=0, topics=[]), FETCH_VERSION, FetchResponse)
    assert (answer.error_code, answer.responses) == (0, [])


def test_readers_of_committed_data_get_an_empty_list_of_aborted_transactions_others_none(
    wire: Wire, topic: str
) -> None:
    request = fetch_request(topic)
    assert fetch(wire, request).aborted_transactions in (None, [])
    request.isolation_level = 1
    answer = fetch(wire, request)
    assert answer.aborted_transactions == []
    assert len(values_of(answer.records)) == 10
