"""Random interleavings of producers, flushes, timeouts and crashes: what was promised holds, always."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from oncestream.broker.settings import Durability
from oncestream.broker.topic_names import TRANSACTIONS_TOPIC
from oncestream.broker.transactions.ledger import Ledger
from oncestream.broker.transactions.state import State, TopicPartition
from oncestream.records.records import Record, build_batch
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncestream.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncestream.wire.messages.end_txn import EndTxnRequest
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest
from oncestream.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncestream.wire.schema import Message
from tests.broker.transactions.world import PARTITIONS, TOPIC, World
from tests.effort import effort

NAMES = ["red", "green"]
TIMEOUT_MS = 10_000
COME_AGAIN = {19, 51}  # NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS
FENCED = {47, 90}  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED


@dataclass
class Txn:
    """What its producer knows about one transaction."""

    number: int
    name: str
    begun_ms: int
    values: list[tuple[int, bytes]] = field(
        default_factory=list
    )  # all of them acknowledged, or it never commits
    offset: bool = False
    fate: str = "open"  # open, committing (asked for, not answered), committed, aborted


@dataclass
class Step:
    """A request that has to be answered before the producer goes on; after a crash it is sent again."""

    request: Message
    version: int
    done: Any
    sent: bool = False


class Writer:
    """A producer that follows the protocol: in transaction version 2, or as old clients do."""

    def __init__(self, machine: Machine, name: str, new_protocol: bool) -> None:
        self.machine, self.name, self.new_protocol = machine, name, new_protocol
        self.id = self.epoch = -1
        self.sequences: Counter[int] = Counter()
        self.added: set[int | str] = set()
        self.steps: list[Step] = []
        self.sent: list[Step] = []  # all that may come once more, however late
        self.dead = self.misses_an_answer = False
        self.begin()

    def start(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        self.do(request, 5 if self.new_protocol else 0, self.take)

    def begin(self) -> None:
        self.txn = Txn(next(self.machine.numbers), self.name, self.machine.world.clock.ms)
        self.added = set()
        self.machine.txns.append(self.txn)

    # -- what it does -------------------------------------------------------------------------

    def produce(self, index: int) -> None:
        value = b"%d:%d" % (self.txn.number, next(self.machine.numbers))
        if not self.new_protocol and index not in self.added:
            topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])]
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
            self.do(add, 0, lambda _: self.added.add(index))
        records = build_batch(
            [Record(0, self.machine.world.clock.ms, b"k", value)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences[index],
            transactional=True,
        )
        self.sequences[index] += 1
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=index, records=bytes(records))]
        )
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10**6, topic_data=[data])
        txn = self.txn
        self.do(request, 12 if self.new_protocol else 9, lambda _: txn.values.append((index, value)))

    def commit_offset(self) -> None:
        if not self.new_protocol and "offsets" not in self.added:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=self.id,
                producer_epoch=self.epoch,
                group_id=self.name,
            )
            self.do(add, 0, lambda _: self.added.add("offsets"))
        where = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=self.txn.number)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[where])],
        )
        txn = self.txn
        self.do(request, 5 if self.new_protocol else 3, lambda _: setattr(txn, "offset", True))

    def end(self, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        if commit:
            self.txn.fate = "committing"

        def ended(answer: Any) -> None:
            self.txn.fate = "committed" if commit else "aborted"
            self.begin()
            self.take(answer)

        self.do(request, 5 if self.new_protocol else 1, ended)

    # -- how it does it -----------------------------------------------------------------------

    def do(self, request: Message, version: int, done: Any) -> None:
        self.steps.append(Step(request, version, done))
        self.go_on()

    def go_on(self) -> None:
        """Sends the next step, if the one before is answered."""
        while self.steps and not self.steps[0].sent and not self.dead:
            step = self.steps[0]
            step.sent = True
            if self.new_protocol and not isinstance(step.request, InitProducerIdRequest):
                self.sent.append(step)
            later = self.machine.world.send(step.request, step.version)
            later.then(partial(self.answered, step))
            if not later.resolved:
                return

    def answered(self, step: Step, answer: Any) -> None:
        code = _code(answer)
        if self.misses_an_answer or code in COME_AGAIN:
            self.misses_an_answer = step.sent = False
        elif code:
            assert code in FENCED, answer
            assert self.may_be_fenced, answer
            self.dead = True
        else:
            self.steps.remove(step)
            step.done(answer)
            self.go_on()

    def take(self, answer: Any) -> None:
        if answer.producer_id >= 0 and (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()

    def crashed(self) -> None:
        for step in self.steps:
            step.sent = False

    @property
    def may_be_fenced(self) -> bool:
        """Somebody newer came, or the transaction took too long."""
        newest = [writer for writer in self.machine.writers if writer.name == self.name][-1]
        return newest is not self or self.machine.world.clock.ms - self.txn.begun_ms >= TIMEOUT_MS

    @property
    def idle(self) -> bool:
        return not self.steps and not self.dead


class Machine(RuleBasedStateMachine):
    """Transactional producers against a broker that crashes."""

    durability = Durability.FSYNC

    @initialize(kinds=st.tuples(st.booleans(), st.booleans()))
    def start(self, kinds: tuple[bool, bool]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.numbers = itertools.count(1)
        self.txns: list[Txn] = []
        self.stable = [0] * PARTITIONS
        self.seen: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.world = World(self.folder, durability=self.durability)
        self.writers = [
            Writer(self, name, new_protocol) for name, new_protocol in zip(NAMES, kinds, strict=True)
        ]
        for writer in self.writers:
            writer.start()
        self.world.flush_all()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.check_the_end()
        finally:
            self.world.stop()
            shutil.rmtree(self.folder)

    # -- what happens -------------------------------------------------------------------------

    @precondition(lambda self: any(w.txn.values or w.dead for w in self.writers[-len(NAMES) :]))
    @rule(name=st.sampled_from(NAMES), new_protocol=st.booleans())
    def a_producer_comes(self, name: str, new_protocol: bool) -> None:
        self.writers.append(Writer(self, name, new_protocol))
        self.writers[-1].start()

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data(), index=st.integers(0, PARTITIONS - 1), flushed=st.booleans())
    def a_record_is_written(self, data: st.DataObject, index: int, flushed: bool) -> None:
        """It may be on the disk before the note that its partition has joined is."""
        self.pick(data).produce(index)
        if flushed:
            self.world.commits.flush(self.world.data_partitions[index])

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data())
    def an_offset_is_committed(self, data: st.DataObject) -> None:
        self.pick(data).commit_offset()

    @precondition(lambda self: any(w.idle and w.txn.values for w in self.writers))
    @rule(data=st.data(), commit=st.sampled_from([True, True, False]))
    def a_transaction_ends(self, data: st.DataObject, commit: bool) -> None:
        data.draw(st.sampled_from([w for w in self.writers if w.idle and w.txn.values])).end(commit)

    @precondition(lambda self: any(w.idle for w in self.writers))
    @rule(data=st.data(), index=st.integers(0, PARTITIONS - 1), commit=st.booleans())
    def a_transaction_is_decided(self, data: st.DataObject, index: int, commit: bool) -> None:
        """Its markers are written, but not flushed; whatever the coordinator noted is."""
        writer = self.pick(data)
        writer.produce(index)
        self.world.flush_all()
        if writer.idle:
            writer.end(commit)
        for partition in 2 * self.world.node.topics[TRANSACTIONS_TOPIC].partitions:
            self.world.commits.flush(partition)

    @precondition(lambda self: bool(self.world.commits.dirty))
    @rule(data=st.data())
    def a_partition_is_flushed(self, data: st.DataObject) -> None:
        self.world.commits.flush(data.draw(st.sampled_from(list(self.world.commits.dirty))))

    @rule()
    def everything_is_flushed(self) -> None:
        self.world.flush_all()

    @rule(ms=st.sampled_from([1, 1_000, 4_000]))
    def time_passes(self, ms: int) -> None:
        self.world.wait(ms)

    @rule()
    def producers_send_again_what_was_not_answered(self) -> None:
        for writer in self.writers:
            writer.go_on()

    @precondition(lambda self: any(not w.dead for w in self.writers))
    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        """Its request is sent again."""
        data.draw(st.sampled_from([w for w in self.writers if not w.dead])).misses_an_answer = True

    @precondition(lambda self: any(w.sent for w in self.writers))
    @rule(data=st.data(), age=st.integers(0, 3))
    def an_old_request_comes_once_more(self, data: st.DataObject, age: int) -> None:
        """As from a connection that was given up: in transaction version 2 it changes nothing."""
        sent = data.draw(st.sampled_from([w for w in self.writers if w.sent])).sent
        step = sent[max(-1 - age, -len(sent))]
        self.world.send(step.request, step.version).then(lambda _: None)

    @rule()
    def the_broker_is_killed(self) -> None:
        self.world.kill()
        self.restarted()

    @precondition(lambda self: self.durability is Durability.FSYNC)
    @rule(data=st.data())
    def the_power_is_lost(self, data: st.DataObject) -> None:
        self.world.lose_power(lambda count: data.draw(st.integers(0, count)))
        self.restarted()

    def restarted(self) -> None:
        for writer in self.writers:
            writer.crashed()

    def pick(self, data: st.DataObject) -> Writer:
        return data.draw(st.sampled_from([w for w in self.writers if w.idle]))

    # -- what holds ---------------------------------------------------------------------------

    @invariant()
    def the_log_says_what_is_in_force(self) -> None:
        if hasattr(self, "world"):
            assert Ledger(self.world.node).states == self.world.node.transactions.states

    @invariant()
    def readers_of_committed_data_never_see_less_than_before(self) -> None:
        if not hasattr(self, "world"):
            return
        for index, partition in enumerate(self.world.data_partitions):
            assert partition.last_stable_offset >= self.stable[index]
            self.stable[index] = partition.last_stable_offset
            now = self.world.committed(index)
            assert now[: len(self.seen[index])] == self.seen[index]
            self.seen[index] = now

    @invariant()
    def nothing_uncommitted_is_seen(self) -> None:
        if hasattr(self, "world"):
            may_be_seen = {t.number for t in self.txns if t.fate in ("committing", "committed")}
            for values in self.seen:
                assert {_number(value) for value in values} <= may_be_seen

    @invariant()
    def every_open_transaction_has_its_coordinator(self) -> None:
        if not hasattr(self, "world"):
            return
        states = self.world.node.transactions.states
        owners = {txn.producer_id: txn for txn in states if txn.state is State.ONGOING or txn.state.is_ending}
        for index, partition in enumerate(self.world.data_partitions):
            running = partition.log.open_transactions()
            assert len({open_.producer_id for open_ in running}) == len(running)
            for open_ in running:
                assert TopicPartition(TOPIC, index) in owners[open_.producer_id].partitions

    def check_the_end(self) -> None:
        """Everybody stops; timeouts end what is open."""
        self.world.flush_all()
        self.world.wait(10 * TIMEOUT_MS)
        self.world.flush_all()
        seen = [(i, value) for i in range(PARTITIONS) for value in self.world.committed(i)]
        assert len(set(seen)) == len(seen), "a record is there twice"
        for txn in self.txns:
            visible = [value for value in seen if _number(value[1]) == txn.number]
            if txn.fate == "committed" or (txn.fate == "committing" and visible):
                assert sorted(visible) == sorted(txn.values)
            else:
                assert visible == []
        for partition in self.world.data_partitions:
            assert partition.last_stable_offset == partition.log.end_offset
        self.check_offsets({_number(value) for _, value in seen})

    def check_offsets(self, visible: set[int]) -> None:
        for name in NAMES:
            mine = [t.number for t in self.txns if t.name == name and t.offset and t.number in visible]
            found = self.world.node.groups.state.offsets.get(name, TOPIC, 0)
            assert (None if found is None else found.offset) == max(mine, default=None)


def _code(answer: Any) -> int:
    """The first error of an answer."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        (topic,) = answer.results_by_topic_v3_and_below
        return int(topic.results_by_partition[0].partition_error_code)
    if hasattr(answer, "responses"):
        return int(answer.responses[0].partition_responses[0].error_code)
    if hasattr(answer, "topics"):
        return int(answer.topics[0].partitions[0].error_code)
    return int(answer.error_code)


def _number(value: bytes) -> int:
    return int(value.partition(b":")[0])


class OsMachine(Machine):
    durability = Durability.OS


LONG = settings(
    max_examples=effort(40, soak=2_000),
    stateful_step_count=effort(50, soak=80),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def test_no_promise_is_broken_by_crashes_that_lose_what_was_not_flushed() -> None:
    run_state_machine_as_test(Machine, settings=LONG)


def test_no_promise_is_broken_by_kills_of_a_broker_that_does_not_flush() -> None:
    run_state_machine_as_test(OsMachine, settings=LONG)
