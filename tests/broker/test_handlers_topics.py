"""Metadata and the Describe APIs, on the embedded broker and on Apache Kafka alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from oncestream.storage.folder import LOCK
from oncestream.wire.messages import describe_log_dirs, describe_producers, describe_topic_partitions
from oncestream.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from oncestream.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from oncestream.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
)
from oncestream.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    Wire,
    batch,
    create_topic,
    error_name,
    metadata,
    new_name,
    produce,
    wait_until,
)

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
UNKNOWN_ID = bytes(range(16))


def ask(
    wire: Wire, *wanted: tuple[str | None, bytes], version: int = 12, create: bool = False
) -> list[MetadataResponseTopic]:
    topics = [MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in wanted]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return wire.ask(request, version, MetadataResponse).topics


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_a_topic_in_every_version(wire: Wire, version: int) -> None:
    made = create_topic(wire, partitions=2)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=made.name)], allow_auto_topic_creation=False)
    answer = wire.ask(request, version, MetadataResponse)
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert (answer.brokers[0].host, answer.brokers[0].port) == wire.sock.getpeername()
    topic = answer.topics[0]
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, made.name, 2)
    assert topic.topic_id == (made.topic_id if version >= 10 else bytes(16))
    assert [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [(1, [1], [1])] * 2


def test_topics_can_be_asked_for_by_id_from_version_12_on(wire: Wire) -> None:
    made = create_topic(wire)
    for name in (None, made.name, "another-name"):
        answer = ask(wire, (name, made.topic_id))
        assert [(t.error_code, t.name, t.topic_id) for t in answer] == [(0, made.name, made.topic_id)]
    unknown = ask(wire, (None, UNKNOWN_ID))[0]
    assert (error_name(unknown.error_code), unknown.name) == ("UNKNOWN_TOPIC_ID", None)
    assert unknown.topic_id == UNKNOWN_ID
    for version in (10, 11):
        for wanted in ((made.name, made.topic_id), (None, bytes(16))):
            refused = ask(wire, wanted, version=version)[0]
            assert error_name(refused.error_code) == "INVALID_REQUEST"


def test_where_ids_are_asked_for_names_are_not_looked_at(wire: Wire) -> None:
    first, second = create_topic(wire), create_topic(wire)
    answer = ask(wire, (None, first.topic_id), (second.name, bytes(16)))
    assert [topic.name for topic in answer] == [first.name]


def test_a_topic_asked_for_many_times_is_answered_once(wire: Wire) -> None:
    made = create_topic(wire)
    assert len(ask(wire, *[(made.name, bytes(16))] * 20)) == 1
    assert len(ask(wire, *[(None, made.topic_id)] * 20)) == 1


def test_unknown_and_impossible_names_are_told_and_not_created(wire: Wire) -> None:
    name = new_name()
    for wanted, expected in (
        (name, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("", "INVALID_TOPIC_EXCEPTION"),
        ("bad name!", "INVALID_TOPIC_EXCEPTION"),
        ("..", "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, "INVALID_TOPIC_EXCEPTION"),
    ):
        topic = ask(wire, (wanted, bytes(16)))[0]
        assert (error_name(topic.error_code), topic.name, topic.partitions) == (expected, wanted, [])
    everything = wire.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    assert name not in {topic.name for topic in everything.topics}


def test_no_topics_means_none_and_null_means_all_but_in_version_0(wire: Wire) -> None:
    made = create_topic(wire)
    assert wire.ask(MetadataRequest(topics=[]), 1, MetadataResponse).topics == []
    for topics, version in ((None, 1), ([], 0), (None, 12)):
        answer = wire.ask(MetadataRequest(topics=topics), version, MetadataResponse)
        assert made.name in {topic.name for topic in answer.topics}


def test_a_topic_is_created_on_first_use_only_where_client_and_broker_allow_it(
    start_broker: StartBroker, connect: Connect
) -> None:
    willing = connect(start_broker(default_partitions=3, partitions_max=5).bootstrap_servers)
    for create in (False, True):
        assert error_name(metadata(willing, ["new"], create=create)[0].error_code) == UNKNOWN
    wait_until(lambda: metadata(willing, ["new"])[0].error_code == 0)
    assert len(metadata(willing, ["new"])[0].partitions) == 3
    assert error_name(metadata(willing, ["newer"], create=True)[0].error_code) == "POLICY_VIOLATION"
    assert (
        error_name(metadata(willing, ["bad name!"], create=True)[0].error_code) == "INVALID_TOPIC_EXCEPTION"
    )
    unwilling = connect(start_broker(auto_create_topics=False).bootstrap_servers)
    refused = metadata(unwilling, ["new"], create=True)[0]
    assert error_name(refused.error_code) == UNKNOWN
    create_topic(unwilling, "other")  # a round trip later
    assert error_name(metadata(unwilling, ["new"])[0].error_code) == UNKNOWN


# -- DescribeTopicPartitions --------------------------------------------------------------------

Page = tuple[list[tuple[str, str, list[int]]], tuple[str, int] | None]


def page(wire: Wire, names: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Page:
    topics = [describe_topic_partitions.TopicRequest(name=name) for name in names]
    at = None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)
    answer = wire.ask(request, 0, DescribeTopicPartitionsResponse)
    more = answer.next_cursor
    told = [
        (error_name(topic.error_code), topic.name or "", [p.partition_index for p in topic.partitions])
        for topic in answer.topics
    ]
    return told, None if more is None else (more.topic_name, more.partition_index)


@pytest.fixture
def pair(wire: Wire) -> tuple[str, str]:
    """Two topics of three partitions, in the order of their names."""
    first = new_name()
    return create_topic(wire, f"{first}-a", 3).name or "", create_topic(wire, f"{first}-b", 3).name or ""


def test_partitions_come_in_pages_sorted_by_name(wire: Wire, pair: tuple[str, str]) -> None:
    a, b = pair
    whole_a, whole_b = ("NONE", a, [0, 1, 2]), ("NONE", b, [0, 1, 2])
    assert page(wire, [b, a]) == ([whole_a, whole_b], None)
    assert page(wire, [a, a]) == ([whole_a], None)
    assert page(wire, [b, a], 2) == ([("NONE", a, [0, 1])], (a, 2))
    assert page(wire, [b, a], 3) == ([whole_a], (b, 0))
    assert page(wire, [b, a], 4) == ([whole_a, ("NONE", b, [0])], (b, 1))
    assert page(wire, [b, a], 0) == page(wire, [b, a], -1) == ([("NONE", a, [0])], (a, 1))


def test_a_page_goes_on_where_the_cursor_stands(wire: Wire, pair: tuple[str, str]) -> None:
    a, b = pair
    whole_b = ("NONE", b, [0, 1, 2])
    assert page(wire, [b, a], cursor=(a, 1)) == ([("NONE", a, [1, 2]), whole_b], None)
    assert page(wire, [b, a], cursor=(a, 3)) == ([("NONE", a, []), whole_b], None)
    for wrong in ((a + "x", 0), (a, -1)):
        told, more = page(wire, [b, a], cursor=wrong)
        assert sorted(told) == [("INVALID_REQUEST", a, []), ("INVALID_REQUEST", b, [])]
        assert more is None


def test_topics_that_cannot_be_described_are_told_in_their_place(wire: Wire, pair: tuple[str, str]) -> None:
    a, _ = pair
    told, more = page(wire, [a, "no-such-topic"], 2)
    assert told == [("UNKNOWN_TOPIC_OR_PARTITION", "no-such-topic", []), ("NONE", a, [0, 1])]
    assert more == (a, 2)
    assert page(wire, ["bad name!"]) == ([("INVALID_TOPIC_EXCEPTION", "bad name!", [])], None)


# -- CreateTopics and DeleteTopics --------------------------------------------------------------


def test_a_request_that_allows_no_time_times_out_and_neither_makes_nor_deletes_a_topic(wire: Wire) -> None:
    kept = create_topic(wire)
    for version in range(2, 8):
        name = new_name()
        wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        made = wire.ask(CreateTopicsRequest(topics=wanted, timeout_ms=0), version, CreateTopicsResponse)
        assert {each.name: error_name(each.error_code) for each in made.topics} == {name: "REQUEST_TIMED_OUT"}
        assert error_name(metadata(wire, [name])[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    for version in range(1, 7):
        by_name = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=kept.name)], topic_names=[kept.name or ""], timeout_ms=0
        )
        (answer,) = wire.ask(by_name, version, DeleteTopicsResponse).responses
        assert (answer.name, error_name(answer.error_code)) == (kept.name, "REQUEST_TIMED_OUT")
    assert metadata(wire, [kept.name or ""])[0].topic_id == kept.topic_id


# -- DescribeProducers and DescribeLogDirs ------------------------------------------------------


def test_describe_producers_tells_who_has_written_to_a_partition(wire: Wire) -> None:
    topic = create_topic(wire, partitions=2).name or ""
    produce(wire, topic, batch(b"x", b"y", producer_id=700, epoch=2, timestamp_ms=5), partition=1)
    wanted = [
        describe_producers.TopicRequest(name=topic, partition_indexes=[0, 1, 9]),
        describe_producers.TopicRequest(name="no-such-topic", partition_indexes=[0]),
    ]
    answer = wire.ask(DescribeProducersRequest(topics=wanted), 0, DescribeProducersResponse)
    here, unknown = sorted(answer.topics, key=lambda told: told.name != topic)
    partitions = {told.partition_index: told for told in here.partitions}
    assert [error_name(partitions[index].error_code) for index in (0, 1, 9)] == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert partitions[0].active_producers == []
    state = partitions[1].active_producers[0]
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (700, 2, 1)
    assert (state.last_timestamp, state.coordinator_epoch, state.current_txn_start_offset) == (5, -1, -1)
    assert error_name(unknown.partitions[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs_tells_the_size_of_partitions(wire: Wire, version: int) -> None:
    topic = create_topic(wire, partitions=2).name or ""
    records = batch(b"x" * 100)
    produce(wire, topic, records, partition=1)
    wanted = [
        describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=[0, 1, 7]) for name in (topic, "no")
    ]
    answer = wire.ask(DescribeLogDirsRequest(topics=wanted), version, DescribeLogDirsResponse)
    (folder,) = answer.results
    sizes = {p.partition_index: p.partition_size for told in folder.topics for p in told.partitions}
    assert [told.name for told in folder.topics] == [topic]
    assert sizes == {0: 0, 1: len(records)}
    assert (folder.total_bytes > folder.usable_bytes > 0) == (version >= 4)
    everything = wire.ask(DescribeLogDirsRequest(topics=None), version, DescribeLogDirsResponse)
    assert topic in {told.name for told in everything.results[0].topics}


@pytest.mark.parametrize("ignores_case", [True, False])
def test_names_that_differ_by_case_collide_where_the_disk_ignores_case(
    tmp_path: Path, start_broker: StartBroker, connect: Connect, ignores_case: bool
) -> None:
    lock = tmp_path / "data" / LOCK
    lock.parent.mkdir()
    lock.touch()
    if ignores_case:  # on such a disk the file has this name too
        lock.with_name(LOCK.upper()).hardlink_to(lock)
    wire = connect(start_broker(data=lock.parent).bootstrap_servers)
    create_topic(wire, "Clicks")

    def made(name: str) -> list[tuple[str, str | None]]:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=15_000
        )
        answer = wire.ask(request, 7, CreateTopicsResponse).topics
        return [(error_name(each.error_code), each.error_message) for each in answer]

    for name, other in (("clicks", "Clicks"), ("__Consumer_Offsets", "__consumer_offsets")):
        ((told, message),) = made(name)
        assert (told == "INVALID_TOPIC_EXCEPTION") == ignores_case
        assert (f"collides with existing topic: {other}. The disk" in (message or "")) == ignores_case
    ask(wire, ("CLICKS", bytes(16)), create=True)  # is made, or not, before the next answer
    (first_use,) = ask(wire, ("CLICKS", bytes(16)))
    assert (error_name(first_use.error_code) == "UNKNOWN_TOPIC_OR_PARTITION") == ignores_case
    assert made("Clicks")[0][0] == "TOPIC_ALREADY_EXISTS"
