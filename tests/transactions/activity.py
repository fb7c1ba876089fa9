"""What clients do with topics and transactions, at random, by raw requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from oncestream.wire.error_codes import ErrorCode
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
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.kit import Wire, create_topic
from tests.transactions.answers import TOPIC_RESOURCE
from tests.transactions.raw_producer import Producer

PARTITIONS_MAX: Final = 4
TOPICS_MAX: Final = 8
CONFIGS: Final = {
    "retention.ms": ("100000000", "-1"),
    "cleanup.policy": ("compact", "delete", "compact,delete"),
}
SIMPLE_GROUPS: Final = ("simple-0", "simple-1")  # only transactions commit to them
SET, DELETE = 0, 1


@dataclass
class TopicActivity:
    """Topics, their configurations and their producers."""

    chance: random.Random
    topics: dict[str, int] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)

    @property
    def steps(self) -> list[Callable[[Wire], None]]:
        return [
            self.make_topic, self.make_partitions, self.set_config, self.unset_config, self.delete_topic,
            self.delete_records, self.new_producer, self.init_again, *[self.write] * 4, *[self.commit_offset] * 2,
            *[self.end] * 3,
        ]  # fmt: skip

    def make_topic(self, wire: Wire) -> None:
        """A new one, or one of a name that was deleted."""
        name, partitions = f"topic-{self.chance.randint(1, TOPICS_MAX)}", self.chance.randint(1, 3)
        if name in self.topics:
            return
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
        """Also one that an open transaction has written to."""
        name = self.topic()
        if len(self.topics) > 2:
            del self.topics[name]
            for producer in self.producers:
                producer.forget(name)
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
