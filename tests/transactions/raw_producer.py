"""A producer by raw requests: idempotent or transactional, with transactions of version 1 or 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from oncestream.records.records import Record, build_batch
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncestream.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.broker.kit import Wire, wait_until

TRANSACTION_TIMEOUT_MS: Final = 900_000


@dataclass
class Producer:
    """A producer as a client library sees it; without a transactional id it is only idempotent.

    `version` is that of its transactions (KIP-890): with 2 partitions join by themselves.
    """

    transactional_id: str | None
    version: int = 2
    id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    joined: set[tuple[str, int]] = field(default_factory=set)
    open: bool = False

    def init(self, wire: Wire) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer = accepted(lambda: wire.ask(request, 5, InitProducerIdResponse), lambda told: told.error_code)
        self._take(answer.producer_id, answer.producer_epoch)

    def write(self, wire: Wire, topic: str, partition: int, count: int) -> None:
        if self.transactional_id is not None and self.version == 1 and (topic, partition) not in self.joined:
            self._add_partition(wire, topic, partition)
        sequence = self.sequences.get((topic, partition), 0)
        records = build_batch(
            [Record(number, 1_000_000 + number, b"key", b"value") for number in range(count)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )
        data = PartitionProduceData(index=partition, records=bytes(records))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=15_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        accepted(
            lambda: wire.ask(request, self._of_version(11, 12), ProduceResponse),
            lambda told: told.responses[0].partition_responses[0].error_code,
        )
        self.sequences[topic, partition] = sequence + count
        self.open = self.transactional_id is not None

    def commit_offset(self, wire: Wire, group: str, topic: str, partition: int, offset: int) -> None:
        mine: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "group_id": group,
        }
        if self.version == 1:
            accepted(
                lambda: wire.ask(AddOffsetsToTxnRequest(**mine), 3, AddOffsetsToTxnResponse),
                lambda told: told.error_code,
            )
        where = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=f"by {self.id}"
        )
        request = TxnOffsetCommitRequest(
            **mine, topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[where])]
        )
        accepted(
            lambda: wire.ask(request, self._of_version(4, 5), TxnOffsetCommitResponse),
            lambda told: told.topics[0].partitions[0].error_code,
        )
        self.open = True

    def end(self, wire: Wire, *, commit: bool) -> None:
        request = self.ending(commit)
        answer = accepted(
            lambda: wire.ask(request, self.end_version, EndTxnResponse), lambda told: told.error_code
        )
        if self.version == 2:
            self._take(answer.producer_id, answer.producer_epoch)
        self.open = False
        self.joined.clear()

    def ending(self, commit: bool) -> EndTxnRequest:
        assert self.transactional_id is not None
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )

    @property
    def end_version(self) -> int:
        return self._of_version(4, 5)

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self.sequences = {where: n for where, n in self.sequences.items() if where[0] != topic}
        self.joined = {where for where in self.joined if where[0] != topic}

    def _of_version(self, first: int, second: int) -> int:
        return first if self.version == 1 else second

    def _add_partition(self, wire: Wire, topic: str, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=str(self.transactional_id),
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        accepted(
            lambda: wire.ask(request, 3, AddPartitionsToTxnResponse),
            lambda told: told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        self.joined.add((topic, partition))

    def _take(self, producer_id: int, epoch: int) -> None:
        if (self.id, self.epoch) != (producer_id, epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch
        self.open = False
        self.joined.clear()


def accepted(ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """The first answer that does not say that an earlier transaction is still being ended; it must be no error."""
    answers: list[Any] = []

    def told() -> bool:
        answers.append(ask())
        return code_of(answers[-1]) != ErrorCode.CONCURRENT_TRANSACTIONS

    wait_until(told)
    assert code_of(answers[-1]) == 0, answers[-1]
    return answers[-1]
