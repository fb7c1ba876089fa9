"""The coordinator on a real log: requests through their handlers, flushes and crashes by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncestream.broker.settings import Durability
from oncestream.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.state import State, Transaction
from oncestream.records.records import Record, build_batch
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncestream.wire.messages.api_versions import ApiVersionsRequest
from oncestream.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncestream.wire.messages.end_txn import EndTxnRequest
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest
from oncestream.wire.messages.list_transactions import ListTransactionsRequest
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncestream.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncestream.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oncestream.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.transactions.world import TOPIC, World

NONE = ErrorCode.NONE
JUMP_MS = 6 * 3_600_000


@pytest.fixture(params=list(Durability))
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, durability=request.param)
    yield made
    assert Ledger(made.node).states == made.node.transactions.states
    made.stop()


class Client:
    """A producer that remembers what it was told last."""

    def __init__(self, world: World, name: str = "x", timeout_ms: int = 60_000) -> None:
        self.world, self.name, self.timeout_ms = world, name, timeout_ms
        self.id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    def init(self, version: int = 5, *, go_on: bool = False) -> ErrorCode:
        known = {"producer_id": self.id, "producer_epoch": self.epoch} if go_on else {}
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=self.timeout_ms, **known
        )
        return self._take(self.world.ask(request, version))

    def produce(self, value: bytes, index: int = 0, version: int = 12) -> ErrorCode:
        return produced(self.world.ask(self.batch(value, index), version))

    def batch(self, value: bytes, index: int = 0) -> ProduceRequest:
        sequence = self.sequences.get(index, 0)
        self.sequences[index] = sequence + 1
        records = build_batch(
            [Record(0, self.world.clock.ms, b"k", value)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=index, records=records)
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )

    def add(self, *indexes: int, version: int = 3, topic: str = TOPIC) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
        )
        answer = self.world.ask(request, version)
        (told,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(r.partition_error_code) for r in told.results_by_partition]

    def end(self, commit: bool = True, version: int = 5) -> ErrorCode:
        return self._take(self.world.ask(self.ending(commit), version))

    def ending(self, commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )

    def commit_offset(self, offset: int, version: int = 5) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id="g",
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        return ErrorCode(self.world.ask(request, version).topics[0].partitions[0].error_code)

    def _take(self, answer: Any) -> ErrorCode:
        if answer.error_code == 0 and answer.producer_id >= 0:
            if (self.id, self.epoch) != (answer.producer_id, answer.producer_epoch):
                self.sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)


def produced(answer: Any) -> ErrorCode:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def ready(world: World, name: str = "x", **options: Any) -> Client:
    client = Client(world, name, **options)
    assert client.init() is NONE
    return client


def state_of(world: World, name: str = "x") -> Transaction:
    world.flush_all()
    found = world.node.transactions.states.get(name)
    assert found is not None
    return found


def fetched_offset(world: World) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    answer = world.ask(OffsetFetchRequest(groups=[group], require_stable=True), 9)
    (partition,) = answer.groups[0].topics[0].partitions
    return partition.committed_offset, partition.error_code


# -- the life of a transaction ----------------------------------------------------------------


def test_committed_records_are_seen_aborted_ones_never(world: World) -> None:
    client = ready(world)
    assert client.produce(b"a", 0) is NONE
    assert client.produce(b"b", 1) is NONE
    assert world.committed(0) == world.committed(1) == []
    assert client.end() is NONE
    assert client.produce(b"c", 0) is NONE
    assert client.end(commit=False) is NONE
    assert (world.committed(0), world.committed(1)) == ([b"a"], [b"b"])
    assert world.data_partitions[0].log.open_transactions() == []


def test_every_transaction_of_version_2_has_its_own_epoch(world: World) -> None:
    client = ready(world)
    epochs = []
    for commit in (True, False, True):
        assert client.produce(b"v") is NONE
        assert client.end(commit) is NONE
        epochs.append(client.epoch)
    assert epochs == [1, 2, 3]


def test_old_clients_add_partitions_and_keep_their_epoch(world: World) -> None:
    client = ready(world)
    for number in range(2):
        assert client.add(0, version=0) == [NONE]
        assert client.produce(b"%d" % number, version=9) is NONE
        assert client.end(version=1) is NONE
    assert client.epoch == 0
    assert world.committed(0) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_an_old_client_may_not_write_where_it_has_not_added(
    world: World, version: int, code: ErrorCode
) -> None:
    client = ready(world)
    assert client.produce(b"v", 0, version) is code
    assert client.add(1) == [NONE]
    assert client.produce(b"v", 0, version) is code
    assert world.data_partitions[0].log.end_offset == 0


def test_a_transactional_batch_needs_a_transactional_id(world: World) -> None:
    request = ready(world).batch(b"v")
    request.transactional_id = None
    assert produced(world.ask(request, 12)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_nobody_writes_to_the_coordinators_logs(world: World) -> None:
    request = ready(world).batch(b"v")
    request.topic_data[0].name = "__transaction_state"
    assert produced(world.ask(request, 12)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_partitions_that_are_not_there_keep_the_others_out(world: World) -> None:
    client = ready(world)
    assert client.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert state_of(world).state is State.EMPTY


def test_brokers_may_add_and_verify_for_several_transactions_at_once(world: World) -> None:
    one, two = ready(world, "one"), ready(world, "two")
    topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])]
    wanted = [
        AddPartitionsToTxnTransaction(
            transactional_id=c.name,
            producer_id=c.id,
            producer_epoch=c.epoch,
            verify_only=verify,
            topics=topics,
        )
        for c, verify in ((one, False), (two, True))
    ]
    answer = world.ask(AddPartitionsToTxnRequest(transactions=wanted), 4)
    codes = {
        result.transactional_id: result.topic_results[0].results_by_partition[0].partition_error_code
        for result in answer.results_by_transaction
    }
    assert codes == {"one": NONE, "two": ErrorCode.TRANSACTION_ABORTABLE}


def test_an_abort_without_any_record_moves_the_epoch_on(world: World) -> None:
    client = ready(world)
    assert client.end(commit=False) is NONE
    assert client.epoch == 1
    assert client.end(commit=True) is ErrorCode.INVALID_TXN_STATE


def test_a_repeated_end_gets_the_same_answer(world: World) -> None:
    client = ready(world)
    client.produce(b"v")
    request = client.ending()
    assert client.end() is NONE
    answer = world.ask(request, 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, client.id, client.epoch)


def test_an_end_that_comes_late_does_not_touch_the_next_transaction(world: World) -> None:
    client = ready(world)
    client.produce(b"v")
    late = client.ending(commit=False)
    client.end()
    client.produce(b"w")
    assert world.ask(late, 5).error_code == ErrorCode.PRODUCER_FENCED
    assert client.end() is NONE
    assert world.committed(0) == [b"v", b"w"]


def test_a_write_that_comes_after_the_end_is_refused(world: World) -> None:
    client = ready(world)
    client.produce(b"v")
    straggler = client.batch(b"late")
    assert client.end() is NONE
    assert produced(world.ask(straggler, 12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.committed(0) == [b"v"]


def test_the_epochs_of_a_producer_id_run_out_and_another_one_goes_on(world: World) -> None:
    client = ready(world)
    txn = state_of(world)
    world.node.transactions.ledger.put(txn.move_to(State.EMPTY, 0, epoch=32766))
    first, client.epoch = client.id, 32766
    assert client.produce(b"last") is NONE
    assert client.end() is NONE
    assert client.id > first
    assert client.epoch == 0
    assert client.produce(b"first") is NONE
    assert client.end() is NONE
    assert world.committed(0) == [b"last", b"first"]


# -- fencing ----------------------------------------------------------------------------------


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(world: World) -> None:
    old = ready(world)
    old.produce(b"zombie")
    new = ready(world)
    assert (new.id, new.epoch) == (old.id, 2)
    assert old.produce(b"more") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.end(version=5) is ErrorCode.PRODUCER_FENCED
    assert old.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add(1, version=3) == [ErrorCode.PRODUCER_FENCED]
    assert old.add(1, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert old.init(version=5, go_on=True) is ErrorCode.PRODUCER_FENCED
    assert old.init(version=3, go_on=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.commit_offset(1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert new.produce(b"new") is NONE
    assert new.end() is NONE
    assert world.committed(0) == [b"new"]


def test_a_producer_aborts_its_own_transaction_by_initialising_with_its_epoch(world: World) -> None:
    client = ready(world)
    client.produce(b"failed")
    straggler = client.batch(b"straggler")
    assert client.init(go_on=True) is NONE
    assert client.epoch == 1
    assert produced(world.ask(straggler, 12)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.produce(b"again") is NONE
    assert client.end() is NONE
    assert world.committed(0) == [b"again"]


def test_initialising_once_more_across_a_crash_gets_the_same_epoch(world: World) -> None:
    client = ready(world)
    known = client.id, client.epoch
    assert client.init(go_on=True) is NONE
    world.kill()
    client.id, client.epoch = known
    assert client.init(go_on=True) is NONE
    assert client.epoch == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_initialising_with_nonsense_is_refused(world: World, fields: dict[str, Any], code: ErrorCode) -> None:
    request = InitProducerIdRequest(**{"transactional_id": "x", "transaction_timeout_ms": 1, **fields})
    answer = world.ask(request, 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


def test_an_id_nobody_has_initialised_is_not_known(world: World) -> None:
    client = Client(world)
    client.id, client.epoch = 5, 0
    assert client.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert client.produce(b"v") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- time -------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(world: World) -> None:
    client = ready(world, timeout_ms=5_000)
    client.produce(b"slow")
    world.wait(4_999)
    assert state_of(world).state is State.ONGOING
    world.wait(1)
    world.flush_all()
    assert state_of(world).state is State.COMPLETE_ABORT
    assert client.produce(b"more") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.end() is ErrorCode.PRODUCER_FENCED
    assert world.data_partitions[0].log.open_transactions() == []
    assert client.init(go_on=True) is NONE


def test_the_timeout_counts_from_the_start_of_the_transaction_and_across_restarts(world: World) -> None:
    client = ready(world, timeout_ms=5_000)
    for _ in range(3):
        client.produce(b"v")
        world.wait(3_000)
        assert client.end() is NONE
    client.produce(b"open")
    world.wait(3_000)
    world.kill()
    world.wait(1_999)
    assert state_of(world).state is State.ONGOING
    world.wait(1)
    assert state_of(world).state is State.COMPLETE_ABORT


@pytest.mark.parametrize("jump_ms", [-JUMP_MS, JUMP_MS], ids=["back", "forward"])
def test_a_clock_that_is_set_makes_no_transaction_longer_or_shorter(world: World, jump_ms: int) -> None:
    client = ready(world, timeout_ms=5_000)
    client.produce(b"slow")
    world.clock.wrong_by_ms = jump_ms
    world.wait(4_999)
    assert state_of(world).state is State.ONGOING
    world.wait(1)
    assert state_of(world).state is State.COMPLETE_ABORT
    assert client.init() is NONE
    client.produce(b"next")
    world.clock.wrong_by_ms = 0
    world.wait(4_999)
    assert client.end() is NONE


def test_a_clock_that_is_set_back_over_a_restart_keeps_a_transaction_open_for_its_timeout_at_most(
    world: World,
) -> None:
    client = ready(world, timeout_ms=5_000)
    client.produce(b"open")
    world.clock.wrong_by_ms = -JUMP_MS
    world.kill()
    world.wait(5_000)
    assert state_of(world).state is State.COMPLETE_ABORT


def test_a_shorter_timeout_after_a_longer_one_is_kept(world: World) -> None:
    client = ready(world, timeout_ms=600_000)
    client.produce(b"v")
    client.end()
    client.timeout_ms = 1_000
    client.init()
    client.produce(b"w")
    world.wait(1_000)
    assert state_of(world).state is State.COMPLETE_ABORT


def test_ids_that_nobody_uses_are_forgotten_but_not_those_in_a_transaction(tmp_path: Path) -> None:
    world = World(tmp_path, transactional_id_expiration_ms=10_000, durability=Durability.OS)
    ready(world, "idle")
    ready(world, "busy").produce(b"v")
    world.wait(10_000)
    assert [txn.id for txn in world.node.transactions.states] == ["busy"]
    world.kill()
    assert [txn.id for txn in world.node.transactions.states] == ["busy"]
    world.stop()


# -- offsets ----------------------------------------------------------------------------------


def test_offsets_count_when_their_transaction_commits(world: World) -> None:
    client = ready(world)
    assert client.commit_offset(5) is NONE
    assert fetched_offset(world) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert client.end() is NONE
    assert fetched_offset(world) == (5, NONE)
    assert client.commit_offset(9) is NONE
    assert client.end(commit=False) is NONE
    assert fetched_offset(world) == (5, NONE)
    world.kill()
    assert fetched_offset(world) == (5, NONE)


def test_old_clients_announce_their_offsets(world: World) -> None:
    client = ready(world)
    assert client.commit_offset(5, version=3) is ErrorCode.INVALID_TXN_STATE
    assert client.commit_offset(5, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, group_id="g"
    )
    assert world.ask(request, 0).error_code == NONE
    assert client.commit_offset(5, version=3) is NONE
    assert client.end(version=1) is NONE
    assert fetched_offset(world) == (5, NONE)


def test_offsets_announced_but_never_sent_do_not_hold_the_end_up(world: World) -> None:
    client = ready(world)
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, group_id="g"
    )
    assert world.ask(request, 3).error_code == NONE
    assert client.end() is NONE
    assert state_of(world).state is State.COMPLETE_COMMIT


def test_a_topic_deleted_in_a_transaction_does_not_hold_the_end_up(world: World) -> None:
    client = ready(world)
    client.produce(b"v")
    world.node.delete_topic(world.node.topics[TOPIC])
    assert client.end() is NONE
    assert state_of(world).state is State.COMPLETE_COMMIT


# -- flushes and crashes ----------------------------------------------------------------------


def test_nothing_is_answered_before_it_is_durable(tmp_path: Path) -> None:
    world = World(tmp_path)
    client = Client(world)
    assert client.init() is NONE
    answers: list[Any] = []
    world.send(client.batch(b"v"), 12).then(answers.append)
    unflushed = [p for p in world.partitions if p.log.synced_offset < p.log.end_offset]
    (data,) = [p for p in unflushed if p.topic == TOPIC]
    (log,) = [p for p in unflushed if p.topic == "__transaction_state"]
    world.flush(data)
    assert len(answers) == 0
    world.flush(log)
    assert len(answers) == 1
    world.send(client.ending(), 5).then(answers.append)
    assert len(answers) == 1
    assert world.committed(0) == []
    world.flush(log)
    assert len(answers) == 2
    assert state_of(world).state is State.COMPLETE_COMMIT
    world.stop()


def test_data_are_on_the_disk_before_the_decision_to_commit_is(tmp_path: Path) -> None:
    world = World(tmp_path)
    client = ready(world)
    world.flush_by_files()
    request = client.batch(b"v")
    request.acks = 1
    world.send(request, 12)
    log = world.node.topics["__transaction_state"].partitions
    later = world.send(client.ending(), 5)
    for partition in log:
        world.flush(partition)
    found = world.node.transactions.states.get("x")
    assert found is not None
    assert found.state is State.ONGOING
    world.flush_all()
    assert later.resolved
    assert world.committed(0) == [b"v"]
    world.stop()


def test_requests_wait_in_their_order_for_the_end_of_the_transaction_before(tmp_path: Path) -> None:
    world = World(tmp_path)
    client = ready(world)
    client.produce(b"first")
    ending = world.send(client.ending(), 5)
    client.epoch, client.sequences = client.epoch + 1, {}
    writes = [world.send(client.batch(value), 12) for value in (b"second", b"third")]
    assert not any(later.resolved for later in (ending, *writes))
    world.flush_all()
    assert all(later.resolved for later in (ending, *writes))
    assert client.end() is NONE
    assert world.committed(0) == [b"first", b"second", b"third"]
    world.stop()


@pytest.mark.parametrize(
    ("version", "code"), [(12, ErrorCode.CONCURRENT_TRANSACTIONS), (9, ErrorCode.NOT_ENOUGH_REPLICAS)]
)
def test_who_has_waited_long_enough_is_told_to_come_again(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    world = World(tmp_path)
    client = ready(world)
    assert client.add(0) == [NONE]
    world.send(client.ending(), 1)
    answers: list[Any] = []
    world.send(client.batch(b"next"), version).then(answers.append)
    world.wait(1_000)
    assert [produced(answer) for answer in answers] == [code]
    world.stop()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("crash", ["before the markers", "after the markers"])
def test_a_coordinator_that_dies_after_the_decision_carries_it_out_when_it_is_back(
    world: World, crash: str, commit: bool
) -> None:
    client = ready(world)
    client.produce(b"a", 0)
    client.produce(b"b", 1)
    client.commit_offset(7)

    ends = [partition.log.end_offset for partition in world.data_partitions]
    refused_after_markers = 0

    def is_full(path: str) -> bool:
        nonlocal refused_after_markers
        has_markers = ends != [partition.log.end_offset for partition in world.data_partitions]
        refused_after_markers += has_markers
        return has_markers if TRANSACTIONS_TOPIC in path else crash == "before the markers"

    world.disk.is_full = is_full
    assert client.end(commit) is NONE
    assert state_of(world).state.is_ending
    assert bool(refused_after_markers) == (crash == "after the markers")
    world.disk.is_full = None
    world.kill()
    world.flush_all()
    assert state_of(world).state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert (world.committed(0), world.committed(1)) == (([b"a"], [b"b"]) if commit else ([], []))
    assert fetched_offset(world) == ((7 if commit else -1), NONE)
    assert all(partition.log.open_transactions() == [] for partition in world.partitions)
    assert client.produce(b"next") is NONE
    assert client.end() is NONE


def test_a_write_whose_joining_was_lost_with_the_power_can_be_repeated_and_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    client = ready(world)
    world.flush_by_files()
    request = client.batch(b"v")
    world.send(request, 12)
    world.flush(world.data_partitions[0])
    world.lose_power()
    assert world.data_partitions[0].log.end_offset == 1
    assert state_of(world).state is State.ONGOING
    assert produced(world.ask(request, 12)) is NONE
    assert client.end() is NONE
    assert world.committed(0) == [b"v"]
    world.stop()


@pytest.mark.parametrize("epoch", [0, 32766])
def test_what_was_begun_after_an_end_is_not_ended_with_it_when_the_power_is_lost(
    tmp_path: Path, epoch: int
) -> None:
    """The log falls back to the decision, while the partition has the marker and a record after it."""
    world = World(tmp_path)
    client = ready(world)
    world.flush_by_files()
    world.node.transactions.ledger.put(state_of(world).move_to(State.EMPTY, 0, epoch=epoch))
    client.epoch = epoch
    assert client.produce(b"first") is NONE
    ends: list[Any] = []
    world.send(client.ending(), 5).then(ends.append)
    for partition in world.node.topics["__transaction_state"].partitions:
        world.flush(partition)
    client.id, client.epoch, client.sequences = ends[0].producer_id, ends[0].producer_epoch, {}
    request = client.batch(b"second")
    world.send(request, 12)
    for _ in range(2):
        world.flush(world.data_partitions[0])
    assert world.data_partitions[0].log.synced_offset == 3
    world.lose_power()
    assert state_of(world).state is State.ONGOING
    assert world.committed(0) == [b"first"]
    assert produced(world.ask(request, 12)) is NONE
    assert client.end() is NONE
    assert world.committed(0) == [b"first", b"second"]
    world.stop()


def test_records_of_a_transaction_without_an_owner_are_aborted_at_the_start(tmp_path: Path) -> None:
    world = World(tmp_path, durability=Durability.OS)
    client = ready(world)
    client.produce(b"v")
    world.node.transactions.ledger.forget("x")
    world.kill()
    assert world.data_partitions[0].log.open_transactions() == []
    assert world.committed(0) == []
    world.stop()


# -- tools ------------------------------------------------------------------------------------


def test_transactions_are_described_and_the_same_after_a_restart(world: World) -> None:
    client = ready(world)
    client.produce(b"v", 1)
    request = DescribeTransactionsRequest(transactional_ids=["x", "", "nobody"])
    told, empty, nobody = world.ask(request, 0).transaction_states
    assert (told.transaction_state, told.producer_id, told.producer_epoch) == ("Ongoing", client.id, 0)
    assert (told.transaction_timeout_ms, told.transaction_start_time_ms) == (60_000, 1_000_000)
    assert [(t.topic, t.partitions) for t in told.topics] == [(TOPIC, [1])]
    assert empty.error_code == ErrorCode.INVALID_REQUEST
    assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    world.kill()
    assert world.ask(request, 0).transaction_states[0] == told


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"done", "open"}),
        ({"state_filters": ["Ongoing"]}, {"open"}),
        ({"state_filters": ["CompleteCommit", "Nonsense"]}, {"done"}),
        ({"producer_id_filters": [0]}, {"done"}),
        ({"duration_filter": 500}, {"done", "open"}),
        ({"duration_filter": 5_000}, set()),
        ({"transactional_id_pattern": "o.*"}, {"open"}),
    ],
)
def test_transactions_are_listed_by_state_producer_age_and_pattern(
    world: World, filters: dict[str, Any], expected: set[str]
) -> None:
    done = ready(world, "done")
    done.produce(b"v")
    done.end()
    ready(world, "open").produce(b"v")
    world.wait(1_000)
    answer = world.ask(ListTransactionsRequest(**filters), 2)
    assert {told.transactional_id for told in answer.transaction_states} == expected
    assert answer.unknown_state_filters == [s for s in filters.get("state_filters", []) if s == "Nonsense"]


def test_a_pattern_that_is_none_is_refused(world: World) -> None:
    answer = world.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    ready(world)


def test_a_transaction_can_be_aborted_by_force(world: World) -> None:
    client = ready(world)
    client.produce(b"v")
    client.commit_offset(5)

    def force(version: int, epoch: int, **more: Any) -> list[int]:
        where = [
            WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 9]),
            WritableTxnMarkerTopic(
                name=OFFSETS_TOPIC, partition_indexes=[world.node.groups.partition_of("g")]
            ),
        ]
        marker = WritableTxnMarker(producer_id=client.id, producer_epoch=epoch, topics=where, **more)
        (told,) = world.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
        return [partition.error_code for topic in told.topics for partition in topic.partitions]

    stale = ErrorCode.INVALID_PRODUCER_EPOCH
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert force(2, 0, transaction_version=2) == [stale, unknown, stale]
    assert force(1, 0) == [NONE, unknown, NONE]
    assert world.data_partitions[0].log.open_transactions() == []
    assert fetched_offset(world) == (-1, NONE)


def test_clients_are_told_the_transaction_version_and_it_can_be_changed(world: World) -> None:
    def told(version: int = 4) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = world.ask(request, version)
        finalized = {f.name: f.max_version_level for f in answer.finalized_features}
        return finalized, {f.name: (f.min_version, f.max_version) for f in answer.supported_features}

    def change(level: int, kind: int, *, validate_only: bool = False) -> ErrorCode:
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)
        return ErrorCode(world.ask(request, 2).error_code)

    ready(world)
    assert told()[0] == {"group.version": 1, "metadata.version": 30, "transaction.version": 2}
    assert told()[1]["transaction.version"] == (0, 2)
    assert told(3)[1]["transaction.version"] == (1, 2)
    assert change(3, 1) is ErrorCode.INVALID_UPDATE_VERSION
    assert change(1, 1) is ErrorCode.INVALID_UPDATE_VERSION
    assert change(1, 2, validate_only=True) is NONE
    assert told()[0]["transaction.version"] == 2
    assert change(1, 2) is NONE
    world.kill()
    assert told()[0]["transaction.version"] == 1
    assert change(0, 3) is NONE
    assert "transaction.version" not in told()[0]
    assert change(2, 1) is NONE


@pytest.mark.parametrize("broken", [0, 1])
def test_a_commit_is_not_decided_when_one_of_its_partitions_cannot_be_flushed(
    tmp_path: Path, broken: int
) -> None:
    world = World(tmp_path)
    client = ready(world)
    for index in (0, 1):
        request = client.batch(b"v", index)
        request.acks = 1
        world.send(request, 12)
    answers: list[Any] = []
    world.send(client.ending(), 5).then(answers.append)
    world.fail(world.data_partitions[broken])
    world.flush_all()
    assert [ErrorCode(answer.error_code) for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert state_of(world).state is State.ONGOING
    assert [world.committed(index) for index in (0, 1)] == [[], []]
    world.stop()


@pytest.mark.parametrize("owner", ["x", "y"])
def test_a_request_with_the_batches_of_two_producers_writes_nothing(tmp_path: Path, owner: str) -> None:
    world = World(tmp_path)
    request = ready(world, "x").batch(b"x", 0)
    request.topic_data[0].partition_data += ready(world, "y").batch(b"y", 1).topic_data[0].partition_data
    request.transactional_id = owner
    told = world.ask(request, 12).responses[0].partition_responses
    assert [answer.error_code for answer in told] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert [partition.log.end_offset for partition in world.data_partitions] == [0, 0]
    assert state_of(world, owner).state is State.EMPTY
    world.stop()


def test_a_transaction_that_the_log_knows_hides_none_whose_joining_was_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    known, lost = ready(world, "x"), ready(world, "y")
    world.flush_by_files()
    assert known.produce(b"known", 0) is NONE
    request = lost.batch(b"lost", 1)
    world.send(request, 12)
    world.flush(world.data_partitions[1])
    world.lose_power()
    assert state_of(world, "y").state is State.ONGOING
    assert produced(world.ask(request, 12)) is NONE
    assert [known.end(), lost.end()] == [NONE, NONE]
    assert [world.committed(0), world.committed(1)] == [[b"known"], [b"lost"]]
    world.stop()
