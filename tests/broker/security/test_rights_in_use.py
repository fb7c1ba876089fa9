"""Rights at work: given, taken back, in transactions, in groups, by host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from oncestream import Broker
from oncestream.broker.security.users import add_user_offline
from oncestream.records.records import Record, build_batch
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncestream.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncestream.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncestream.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from oncestream.wire.messages.produce import ProduceResponse
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.broker.kit import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Wire,
    batch,
    create_topic,
    fetch,
    fetch_request,
    metadata,
    produce,
    produce_request,
    values_of,
    wait_until,
)
from tests.broker.security.rights import ADMIN, SECRET, allow, logged_in, take_back

ALICE = "alice"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class World(NamedTuple):
    """A broker with one administrator and one user."""

    address: str
    admin: Wire
    alice: Wire


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    for name in (ADMIN, ALICE):
        add_user_offline(tmp_path, name, SECRET)
    secured = Broker(tmp_path, sasl_mechanisms="SCRAM-SHA-512", authorization=True, super_users=ADMIN)
    with (
        secured as broker,
        logged_in(broker.bootstrap_servers, ADMIN) as admin,
        logged_in(broker.bootstrap_servers, ALICE) as alice,
    ):
        yield World(broker.bootstrap_servers, admin, alice)


def test_a_right_counts_from_the_moment_it_is_given_until_it_is_taken_back(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    assert produce(world.alice, topic, batch(b"before")).error_code == REFUSED
    allow(world.admin, ALICE, TOPIC, topic, Operation.WRITE)
    assert produce(world.alice, topic, batch(b"with")).error_code == 0
    assert take_back(world.admin, ALICE) == 1
    assert produce(world.alice, topic, batch(b"after")).error_code == REFUSED
    assert values_of(fetch(world.admin, fetch_request(topic)).records) == [b"with"]


def test_a_refused_write_without_acknowledgement_ends_the_connection(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    world.alice.send(produce_request(topic, batch(b"x"), acks=0), PRODUCE_VERSION)
    assert world.alice.wait_closed() == b""


def test_a_rule_for_another_host_does_not_count(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    allow(world.admin, ALICE, TOPIC, topic, Operation.READ, host="10.9.9.9")
    assert fetch(world.alice, fetch_request(topic)).error_code == REFUSED
    allow(world.admin, ALICE, TOPIC, topic, Operation.READ, host="127.0.0.1")
    assert fetch(world.alice, fetch_request(topic)).error_code == 0


def test_a_fetch_that_waits_gets_nothing_when_the_right_is_gone(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    allow(world.admin, ALICE, TOPIC, topic, Operation.READ)
    world.alice.send(fetch_request(topic, wait_ms=60_000), FETCH_VERSION)
    take_back(world.admin, ALICE)
    assert produce(world.admin, topic, batch(b"secret")).error_code == 0
    answer = world.alice.receive(FetchResponse, FETCH_VERSION).responses[0].partitions[0]
    assert (answer.error_code, bytes(answer.records or b"")) == (REFUSED, b"")


def test_a_transaction_is_not_joined_by_a_topic_one_may_not_write_to(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    allow(world.admin, ALICE, ResourceType.TRANSACTIONAL_ID, "txn", Operation.WRITE)
    begun = world.alice.ask(
        InitProducerIdRequest(transactional_id="txn", transaction_timeout_ms=10_000),
        4,
        InitProducerIdResponse,
    )
    assert begun.error_code == 0
    records = build_batch(
        [Record(0, 1, None, b"x")],
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request(topic, bytes(records))
    request.transactional_id = "txn"
    answer = world.alice.ask(request, PRODUCE_VERSION, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == REFUSED
    question = DescribeTransactionsRequest(transactional_ids=["txn"])
    state = world.admin.ask(question, 0, DescribeTransactionsResponse).transaction_states[0]
    assert (state.transaction_state, state.topics) == ("Empty", [])
    assert fetch(world.admin, fetch_request(topic)).high_watermark == 0


def test_topics_of_a_transaction_that_one_may_not_see_are_left_out(world: World) -> None:
    seen, hidden = (create_topic(world.admin).name or "" for _ in range(2))
    begun = world.admin.ask(
        InitProducerIdRequest(transactional_id="txn", transaction_timeout_ms=60_000),
        4,
        InitProducerIdResponse,
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="txn",
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (seen, hidden)],
    )
    world.admin.ask(request, 3, AddPartitionsToTxnResponse)
    allow(world.admin, ALICE, ResourceType.TRANSACTIONAL_ID, "txn", Operation.DESCRIBE)
    allow(world.admin, ALICE, TOPIC, seen, Operation.DESCRIBE)
    question = DescribeTransactionsRequest(transactional_ids=["txn"])
    shown = {}
    for wire in (world.admin, world.alice):
        state = wire.ask(question, 0, DescribeTransactionsResponse).transaction_states[0]
        shown[wire] = {topic.topic for topic in state.topics}
    assert (shown[world.admin], shown[world.alice]) == ({seen, hidden}, {seen})


def test_a_pattern_that_could_hold_the_broker_up_is_refused(world: World) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(a+)+b")
    answer = world.alice.ask(request, 2, ListTransactionsResponse)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_idempotence_needs_the_right_to_write_somewhere(world: World) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)

    def code() -> int:
        return world.alice.ask(request, 4, InitProducerIdResponse).error_code

    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow(world.admin, ALICE, TOPIC, "some-", Operation.WRITE, pattern=PatternType.PREFIXED)
    assert code() == 0
    allow(world.admin, ALICE, TOPIC, "*", Operation.WRITE, permission=Permission.DENY)
    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_topic_is_made_on_first_use_only_by_those_who_may_create_it(world: World) -> None:
    def code() -> int:
        return metadata(world.alice, ["mine.first"], create=True)[0].error_code

    allow(world.admin, ALICE, TOPIC, "mine.", Operation.DESCRIBE, pattern=PatternType.PREFIXED)
    assert code() == REFUSED
    assert metadata(world.admin, ["mine.first"])[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    allow(world.admin, ALICE, TOPIC, "mine.", Operation.CREATE, pattern=PatternType.PREFIXED)
    assert code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wait_until(lambda: code() == 0)


def test_who_may_create_a_topic_but_not_see_configs_does_not_see_them(world: World) -> None:
    allow(world.admin, ALICE, TOPIC, "mine", Operation.CREATE)
    wanted = CreatableTopic(name="mine", num_partitions=1, replication_factor=1)
    made = world.alice.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse).topics[0]
    assert (made.error_code, made.topic_config_error_code, made.configs) == (0, REFUSED, [])


def test_offsets_are_neither_committed_nor_deleted_in_topics_one_may_not_read(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    allow(world.admin, ALICE, GROUP, "g", Operation.ALL)
    assert commit(world.admin, topic, 5) == 0
    assert commit(world.alice, topic, 7) == REFUSED
    place = OffsetDeleteRequestPartition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name=topic, partitions=[place])]
    )
    answer = world.alice.ask(request, 0, OffsetDeleteResponse)
    assert answer.topics[0].partitions[0].error_code == REFUSED
    assert committed(world.admin) == {topic: 5}


def test_a_transaction_commits_no_offsets_of_topics_one_may_not_read(world: World) -> None:
    topic = create_topic(world.admin).name or ""
    allow(world.admin, ALICE, GROUP, "g", Operation.READ)
    allow(world.admin, ALICE, ResourceType.TRANSACTIONAL_ID, "txn", Operation.WRITE)
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="txn",
        group_id="g",
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
    )
    answer = world.alice.ask(request, 3, TxnOffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == REFUSED


def commit(wire: Wire, topic: str, offset: int) -> int:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])]
    )
    return wire.ask(request, 8, OffsetCommitResponse).topics[0].partitions[0].error_code


def committed(wire: Wire) -> dict[str, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    answer = wire.ask(request, 8, OffsetFetchResponse).groups[0]
    return {topic.name: topic.partitions[0].committed_offset for topic in answer.topics}


def test_offsets_of_topics_one_may_not_see_are_left_out(world: World) -> None:
    seen, hidden = (create_topic(world.admin).name or "" for _ in range(2))
    assert [commit(world.admin, name, 1) for name in (seen, hidden)] == [0, 0]
    allow(world.admin, ALICE, GROUP, "g", Operation.DESCRIBE)
    allow(world.admin, ALICE, TOPIC, seen, Operation.DESCRIBE)
    assert committed(world.alice) == {seen: 1}


def heartbeat(
    wire: Wire, regex: str | None, member_id: str = "", epoch: int = 0
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id or "member",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if not epoch else -1,
        subscribed_topic_regex=regex,
        topic_partitions=[] if not epoch else None,
    )
    return wire.ask(request, 1, ConsumerGroupHeartbeatResponse)


def assigned(answer: ConsumerGroupHeartbeatResponse) -> set[bytes]:
    assert answer.error_code == 0, answer
    assert answer.assignment is not None
    return {owned.topic_id for owned in answer.assignment.topic_partitions}


def test_a_regular_expression_finds_only_topics_one_may_see(world: World) -> None:
    first, second = (create_topic(world.admin, name) for name in ("fleet-1", "fleet-2"))
    allow(world.admin, ALICE, GROUP, "g", Operation.READ)
    allow(world.admin, ALICE, TOPIC, "fleet-1", Operation.READ)
    joined = heartbeat(world.alice, "fleet-.*")
    assert assigned(joined) == {first.topic_id}
    allow(world.admin, ALICE, TOPIC, "fleet-2", Operation.READ)
    again = heartbeat(world.alice, None, epoch=joined.member_epoch)
    assert assigned(again) == {first.topic_id, second.topic_id}


def test_a_group_is_not_described_to_those_who_may_not_see_its_topics(world: World) -> None:
    create_topic(world.admin, "fleet-1")
    assert heartbeat(world.admin, "fleet-.*").error_code == 0
    allow(world.admin, ALICE, GROUP, "g", Operation.DESCRIBE)
    request = ConsumerGroupDescribeRequest(group_ids=["g"])

    def described() -> tuple[int, int]:
        group = world.alice.ask(request, 1, ConsumerGroupDescribeResponse).groups[0]
        return group.error_code, len(group.members)

    assert described() == (REFUSED, 0)
    allow(world.admin, ALICE, TOPIC, "fleet-1", Operation.DESCRIBE)
    assert described() == (0, 1)
