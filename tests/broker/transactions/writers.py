"""Producers that follow the protocol, and remember what they were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

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
from tests.broker.transactions.world import TOPIC, World

TIMEOUT_MS = 10_000
COME_AGAIN = {19, 51}  # NOT_ENOUGH_REPLICAS, CONCURRENT_TRANSACTIONS
FENCED = {47, 90}  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
STORAGE_ERROR = 56
SMALL, LARGE = 1, 600  # bytes of a value; large is more than the world's journal takes


class Machine(Protocol):
    """Where writers live."""

    world: World
    numbers: Iterator[int]
    txns: list[Txn]
    writers: list[Writer]


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
    """A producer with transactions: in transaction version 2, or as old clients do."""

    def __init__(self, machine: Machine, name: str, new_protocol: bool) -> None:
        self.machine, self.name, self.new_protocol = machine, name, new_protocol
        self.id = self.epoch = -1
        self.came: int | None = None  # when its InitProducerId was answered, by the count of the machine
        self.sequences: Counter[int] = Counter()
        self.added: set[int | str] = set()
        self.steps: list[Step] = []
        self.sent: list[Step] = []  # all that may come once more, however late
        self.dead = self.misses_an_answer = False
        self.begin()

    def start(self) -> None:
        def came(answer: Any) -> None:
            self.came = next(self.machine.numbers)
            self.take(answer)

        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        self.do(request, 5 if self.new_protocol else 0, came)

    def begin(self) -> None:
        self.txn = Txn(next(self.machine.numbers), self.name, self.machine.world.clock.ms)
        self.added = set()
        self.machine.txns.append(self.txn)

    # -- what it does -------------------------------------------------------------------------

    def produce(self, index: int, size_bytes: int = SMALL) -> None:
        value = b"%d:%d:" % (self.txn.number, next(self.machine.numbers)) + b"x" * size_bytes
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
        request = _produce(index, records, self.name)
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
            assert code == STORAGE_ERROR or (code in FENCED and self.may_be_fenced), answer
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
        """Another one came later, or may have (an InitProducerId is sent again after a crash), or time is over."""
        others = [each.came for each in self.machine.writers if each.name == self.name and each is not self]
        is_newest = all(came is not None and came < (self.came or 0) for came in others)
        return not is_newest or self.machine.world.clock.ms - self.txn.begun_ms >= TIMEOUT_MS

    @property
    def idle(self) -> bool:
        return not self.steps and not self.dead


class Streamer:
    """An idempotent producer of one partition, with several batches in flight and without transactions.

    What it was not answered, or was told has failed, it sends again in its order.
    """

    IN_FLIGHT_MAX = 5  # so many batches are known again

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index = machine, index
        self.values: list[bytes] = []
        self.acknowledged = 0
        answer = machine.world.ask(InitProducerIdRequest(transactional_id=None), 5)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.to_send = 0  # the first that is not under way

    def produce(self, size_bytes: int) -> None:
        number = next(self.machine.numbers)
        self.values.append(b"0:%d:" % number + b"x" * size_bytes)
        self.go_on()

    def go_on(self) -> None:
        while self.to_send < min(len(self.values), self.acknowledged + self.IN_FLIGHT_MAX):
            number = self.to_send
            self.to_send += 1
            records = build_batch(
                [Record(0, self.machine.world.clock.ms, b"k", self.values[number])],
                producer_id=self.id,
                producer_epoch=self.epoch,
                base_sequence=number,
            )
            request = _produce(self.index, records, None)
            self.machine.world.send(request, 9).then(partial(self.answered, number))

    def answered(self, number: int, answer: Any) -> None:
        if _code(answer):
            self.to_send = min(self.to_send, number)
        else:
            assert number <= self.acknowledged, "acknowledged out of order"
            self.acknowledged = max(self.acknowledged, number + 1)

    def crashed(self) -> None:
        self.to_send = self.acknowledged


def _produce(index: int, records: bytearray, transactional_id: str | None) -> ProduceRequest:
    data = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=index, records=bytes(records))]
    )
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10**6, topic_data=[data])


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
