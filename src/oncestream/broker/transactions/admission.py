"""Whether a producer may write to partitions in its transaction: asked before every transactional write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from oncestream.broker.state_log import Producer
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, TopicPartition
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.transactions.coordinator import TransactionCoordinator

# As Apache Kafka tells it to producers: an old one must not mistake a coordinator's trouble for its own.
_TOLD: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
}


def admit(
    transactions: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    *,
    joins: bool,
    knows_abortable: bool,
) -> dict[TopicPartition, KafkaError]:
    """The partitions that may not be written to, and why. Those of newer clients join by themselves.

    CONCURRENT_TRANSACTIONS is raised: try again when the transaction before has ended.
    """
    try:
        if joins:
            transactions.join(transactional_id, producer, partitions, VERSION_EPOCH_BUMP)
            return {}
        missing = partitions - transactions.verify(transactional_id, producer)
    except KafkaError as error:
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            raise
        return dict.fromkeys(partitions, KafkaError(_TOLD.get(error.code, error.code), error.message))
    code = ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
    return dict.fromkeys(missing, KafkaError(code, "Partition was not added to the transaction"))


def still_ending(*, knows_concurrent: bool) -> KafkaError:
    """For a producer that has waited long enough for the transaction before to end."""
    told = ErrorCode.CONCURRENT_TRANSACTIONS if knows_concurrent else ErrorCode.NOT_ENOUGH_REPLICAS
    return KafkaError(told, "The transaction before this one has not ended yet")
