"""What clients do with topics, producers and transactions, at random, by raw requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from oncestream.records.records import Record, build_batch
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncestream.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from oncestream.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncestream.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from oncestream.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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
from tests.broker.kit import Wire, create_topic, wait_until
from tests.transactions.answers import TOPIC_RESOURCE

PARTITIONS_MAX: Final = 4
TRANSACTION_TIMEOUT_MS: Final = 900_000
CONFIGS: Final = {
    "retention.ms": ("100000000", "-1"),
    "cleanup.policy": ("compact", "delete", "compact,delete"),
}
SIMPLE_GROUPS: Final = ("simple-0", "simple-1")  # only transactions commit to them
SET, DELETE = 0, 1


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

        def done() -> bool:
            answer = wire.ask(request, 5, InitProducerIdResponse)
            if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return False
            assert answer.error_code == 0, answer
            self._take(answer.producer_id, answer.producer_epoch)
            return True

        wait_until(done)

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
        version = 12 if self.version == 2 else 11

        def accepted() -> bool:
            told = wire.ask(request, version, ProduceResponse).responses[0].partition_responses[0]
            if told.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return False
            assert told.error_code == 0, told
            return True

        wait_until(accepted)
        self.sequences[topic, partition] = sequence + count
        self.open = self.transactional_id is not None

    def commit_offset(self, wire: Wire, group: str, topic: str, partition: int, offset: int) -> None:
        assert self.transactional_id is not None
        mine = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "group_id": group,
        }
        where = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=f"by {self.id}"
        )
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[where])]

        def accepted() -> bool:
            if self.version == 1:
                added = wire.ask(AddOffsetsToTxnRequest(**mine), 4, AddOffsetsToTxnResponse).error_code
                if added == ErrorCode.CONCURRENT_TRANSACTIONS:
                    return False
                assert added == 0, added
            request = TxnOffsetCommitRequest(**mine, topics=topics)
            told = wire.ask(request, 5 if self.version == 2 else 4, TxnOffsetCommitResponse)
            code = told.topics[0].partitions[0].error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return False
            assert code == 0, told
            return True

        wait_until(accepted)
        self.open = True

    def end(self, wire: Wire, *, commit: bool) -> None:
        request = self.ending(commit)
        version = 5 if self.version == 2 else 4

        def done() -> bool:
            answer = wire.ask(request, version, EndTxnResponse)
            if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return False
            assert answer.error_code == 0, answer
            if self.version == 2:
                self._take(answer.producer_id, answer.producer_epoch)
            return True

        wait_until(done)
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

    def _add_partition(self, wire: Wire, topic: str, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        def accepted() -> bool:
            answer = wire.ask(request, 3, AddPartitionsToTxnResponse).results_by_topic_v3_and_below[0]
            code = answer.results_by_partition[0].partition_error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return False
            assert code == 0, answer
            return True

        wait_until(accepted)
        self.joined.add((topic, partition))

    def _take(self, producer_id: int, epoch: int) -> None:
        if (self.id, self.epoch) != (producer_id, epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch
        self.open = False
        self.joined.clear()


@dataclass
class TopicActivity:
    """Topics, their configurations and their producers."""

    chance: random.Random
    topics: dict[str, int] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)
    _made: int = 0

    @property
    def steps(self) -> list[Callable[[Wire], None]]:
        return [
            self.make_topic, self.make_partitions, self.set_config, self.unset_config, self.delete_topic,
            self.delete_records, self.new_producer, self.init_again, *[self.write] * 4, *[self.commit_offset] * 2,
            *[self.end] * 3,
        ]  # fmt: skip

    def make_topic(self, wire: Wire) -> None:
        self._made += 1
        name, partitions = f"topic-{self._made}", self.chance.randint(1, 3)
        create_topic(
            wire, name, partitions, {"segment.bytes": "1048576"} if self.chance.random() < 0.5 else {}
        )
        self.topics[name] = partitions

    def make_partitions(self, wire: Wire) -> None:
        name = self.topic()
        if self.topics[name] < PARTITIONS_MAX:
            self.topics[name] += 1
            wanted = CreatePartitionsTopic(name=name, count=self.topics[name], assignments=None)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=15_000)
            assert wire.ask(request, 3, CreatePartitionsResponse).results[0].error_code == 0

    def set_config(self, wire: Wire) -> None:
        name = self.chance.choice(list(CONFIGS))
        self._alter(
            wire, AlterableConfig(name=name, config_operation=SET, value=self.chance.choice(CONFIGS[name]))
        )

    def unset_config(self, wire: Wire) -> None:
        name = self.chance.choice(list(CONFIGS))
        self._alter(wire, AlterableConfig(name=name, config_operation=DELETE, value=None))

    def delete_topic(self, wire: Wire) -> None:
        """One that no open transaction has written to."""
        name = self.topic()
        if len(self.topics) > 2 and not any(
            p.open and name in {t for t, _ in p.sequences} for p in self.producers
        ):
            del self.topics[name]
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=15_000)
            assert wire.ask(request, 5, DeleteTopicsResponse).responses[0].error_code == 0

    def delete_records(self, wire: Wire) -> None:
        name, partition = self.partition()
        where = DeleteRecordsPartition(partition_index=partition, offset=-1)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[where])], timeout_ms=15_000
        )
        answer = wire.ask(request, 2, DeleteRecordsResponse).topics[0].partitions[0]
        assert answer.error_code in {0, ErrorCode.POLICY_VIOLATION}, answer  # compacted only: not allowed

    def new_producer(self, wire: Wire) -> None:
        number = len(self.producers)
        name = None if self.chance.random() < 0.3 else f"id-{number}"
        self.producers.append(Producer(name, version=self.chance.choice((1, 2))))
        self.producers[-1].init(wire)

    def init_again(self, wire: Wire) -> None:
        if (producer := self.producer()) is not None:
            producer.init(wire)

    def write(self, wire: Wire) -> None:
        if (producer := self.producer()) is not None:
            producer.write(wire, *self.partition(), self.chance.randint(1, 3))

    def commit_offset(self, wire: Wire) -> None:
        producer = self.producer()
        if producer is not None and producer.transactional_id is not None:
            producer.commit_offset(
                wire, self.chance.choice(SIMPLE_GROUPS), *self.partition(), self.chance.randint(0, 1000)
            )

    def end(self, wire: Wire) -> None:
        producer = self.producer()
        if producer is not None and producer.open:
            producer.end(wire, commit=self.chance.random() < 0.6)

    def topic(self) -> str:
        return self.chance.choice(list(self.topics))

    def partition(self) -> tuple[str, int]:
        name = self.topic()
        return name, self.chance.randrange(self.topics[name])

    def producer(self) -> Producer | None:
        return self.chance.choice(self.producers) if self.producers else None

    def _alter(self, wire: Wire, config: AlterableConfig) -> None:
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=self.topic(), configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        assert wire.ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code == 0
