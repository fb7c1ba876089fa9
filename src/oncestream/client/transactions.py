"""Transactions: producer ids and epochs, what belongs to a transaction, its end.

Version 1 (Kafka below 4): partitions and groups are added by requests, the epoch is raised by another one.
Version 2: partitions and groups join by themselves, the answer to the end holds the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from oncestream.client.cluster import Cluster, CoordinatorKind
from oncestream.client.failures import ErrorAnswer, raise_if_error
from oncestream.client.offsets import Committed, offset_topics
from oncestream.client.retry import Retry, until_done
from oncestream.client.topic_partition import TopicPartition, by_topic
from oncestream.errors import (
    BrokerUnreachable,
    CommitUnknown,
    ProducerFenced,
    RequestRefused,
    RequestTimedOut,
    TransactionAborted,
)
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncestream.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from oncestream.wire.schema import Message

M = TypeVar("M", bound=Message)

END_TXN_VERSION_1: Final = 4
TXN_OFFSET_COMMIT_VERSION_1: Final = 4
ABORTED: Final = "CompleteAbort"
ABORTING: Final = frozenset({"PrepareAbort", "PrepareEpochFence"})


class Producer(NamedTuple):
    """Who writes: every transaction has its own epoch, which all its tasks share."""

    producer_id: int
    epoch: int


NOBODY: Final = Producer(-1, -1)


class Transactions:
    """The transactions of one transactional id, one after another, as their driver runs them."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self._cluster = cluster
        self._producer = NOBODY
        self._is_open = False
        self._added: set[TopicPartition] = set()

    @property
    def producer(self) -> Producer:
        """Who writes in the current transaction."""
        assert self._producer is not NOBODY, "start() comes first"
        return self._producer

    @classmethod
    def joined(cls, cluster: Cluster, transactional_id: str, producer: Producer) -> Transactions:
        """The side of a task, which writes in a transaction that its driver began and will end."""
        joined = cls(cluster, transactional_id, timeout_ms=0)
        joined._take(producer)
        return joined

    def start(self) -> Producer:
        """Fences every other producer of this transactional id and aborts what it left open."""
        return self._initialize(NOBODY)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """What will be written. With version 2 nothing is sent: they join when they are written."""
        new = set(partitions) - self._added
        if not new:
            return
        if self._cluster.transaction_version == 1:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer.producer_id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic(sorted(new)).items()
                ],
            )
            self._ask(request, AddPartitionsToTxnResponse, self._check_added)
        self._added |= new
        self._is_open = True

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Offsets of a group, which take effect with the commit. The group must have no live members."""
        mine = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch,
        }
        version_max = None
        if self._cluster.transaction_version == 1:
            version_max = TXN_OFFSET_COMMIT_VERSION_1
            request = AddOffsetsToTxnRequest(**mine)  # type: ignore[arg-type]
            self._ask(
                request,
                AddOffsetsToTxnResponse,
                lambda told: raise_if_error(told.error_code, self.transactional_id),
            )

        def check(told: TxnOffsetCommitResponse) -> None:
            for topic in told.topics:
                for each in topic.partitions:
                    raise_if_error(each.error_code, group, f"{topic.name}-{each.partition_index}")

        topics = offset_topics(offsets, TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition)
        self._cluster.ask_coordinator(
            CoordinatorKind.GROUP,
            group,
            TxnOffsetCommitRequest(**mine, topics=topics),  # type: ignore[arg-type]
            TxnOffsetCommitResponse,
            check,
            version_max=version_max,
        )
        self._is_open = True

    def commit(self) -> Producer:
        """Commits, and answers who writes in the next transaction.

        CommitUnknown: nobody could say whether it was committed; the committed offsets can.
        TransactionAborted: it took too long; after `fence_abort` it can be run again.
        """
        if not self._is_open:
            return self.producer
        mine = self.producer
        version_2 = self._cluster.transaction_version == 2
        told = self._end(mine, None if version_2 else END_TXN_VERSION_1)
        if told.producer_id >= 0:
            return self._take(Producer(told.producer_id, told.producer_epoch))
        try:
            return self._initialize(mine)
        except (BrokerUnreachable, RequestTimedOut) as error:
            raise self._unknown(error) from error

    def fence_abort(self, timeout_ms: int | None = None) -> Producer:
        """Aborts under a new epoch, so that no straggler of the old one can write; answers that epoch.

        ProducerFenced: another driver has taken over.
        """
        if timeout_ms is not None:
            self.timeout_ms = timeout_ms
        mine = self.producer
        try:
            return self._initialize(mine)
        except ProducerFenced:
            if not self._aborted_by_coordinator(mine):
                raise
            return self._initialize(Producer(mine.producer_id, mine.epoch + 1))

    def _aborted_by_coordinator(self, mine: Producer) -> bool:
        """Whether the last thing that happened to our transaction was that the coordinator aborted it.

        It raises the epoch by one then, and with version 1 takes the old one no more. Another driver that took
        over would have gone on from there, to an empty transaction of yet another epoch.
        """

        def check(told: DescribeTransactionsResponse) -> None:
            state = told.transaction_states[0]
            raise_if_error(state.error_code, self.transactional_id)
            if state.transaction_state in ABORTING:
                raise ErrorAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, self.transactional_id)

        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        found = self._ask(request, DescribeTransactionsResponse, check).transaction_states[0]
        now = Producer(found.producer_id, found.producer_epoch)
        return found.transaction_state == ABORTED and now == Producer(mine.producer_id, mine.epoch + 1)

    def _initialize(self, current: Producer) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=current.producer_id,
            producer_epoch=current.epoch,
        )
        told = self._ask(
            request,
            InitProducerIdResponse,
            lambda told: raise_if_error(told.error_code, self.transactional_id),
        )
        return self._take(Producer(told.producer_id, told.producer_epoch))

    def _end(self, mine: Producer, version_max: int | None) -> EndTxnResponse:
        """Asks for the commit, again and again where the answer does not come: the request is idempotent."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=mine.producer_id,
            producer_epoch=mine.epoch,
            committed=True,
        )
        retry = self._cluster.retry()
        try:
            return self._ask(
                request,
                EndTxnResponse,
                lambda told: raise_if_error(told.error_code, self.transactional_id),
                version_max=version_max,
                retry=retry,
            )
        except (BrokerUnreachable, RequestTimedOut) as error:
            raise self._unknown(error) from error
        except (ProducerFenced, RequestRefused) as error:
            if self._aborted_by_coordinator(mine):
                raise TransactionAborted(
                    transactional_id=self.transactional_id, timeout_ms=self.timeout_ms
                ) from error
            # An earlier attempt, whose answer we do not have, may have been the one that ended it.
            if isinstance(error, RequestRefused) and retry.failures > 1:
                raise self._unknown(error) from error
            raise

    def _unknown(self, error: Exception) -> CommitUnknown:
        return CommitUnknown(transactional_id=self.transactional_id, reason=error)

    def _take(self, producer: Producer) -> Producer:
        self._producer = producer
        self._is_open = False
        self._added.clear()
        return producer

    def _check_added(self, told: AddPartitionsToTxnResponse) -> None:
        for topic in told.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                where = TopicPartition(topic.name, each.partition_index)
                raise_if_error(each.partition_error_code, where)

    def _ask(
        self,
        request: Message,
        answer: type[M],
        check: Callable[[M], object],
        *,
        version_max: int | None = None,
        retry: Retry | None = None,
    ) -> M:
        return self._cluster.ask_coordinator(
            CoordinatorKind.TRANSACTION,
            self.transactional_id,
            request,
            answer,
            check,
            version_max=version_max,
            retry=retry,
        )


def idempotent_producer(cluster: Cluster) -> Producer:
    """A producer without transactions, whose resends the broker drops."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

    def attempt() -> Producer:
        with cluster.connection_to(cluster.controller) as connection:
            told = connection.ask(request, InitProducerIdResponse)
        raise_if_error(told.error_code, "idempotent producer")
        return Producer(told.producer_id, told.producer_epoch)

    return until_done(attempt, cluster.retry(), ApiKey.INIT_PRODUCER_ID.name)
