"""WriteTxnMarkers (27), versions 1-2: end transactions in partitions by force, past their coordinator.

`kafka-transactions abort` sends it for a transaction that hangs. Version 2 says under which transaction version
it was begun: from 2 on a marker must have a newer epoch than the records.
Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.broker.state_log import Producer
from oncestream.broker.transactions import markers
from oncestream.broker.transactions.state import VERSION_EPOCH_BUMP, TopicPartition
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse | Later:
    if not call.may(Operation.ALTER, ResourceType.CLUSTER, quiet=True) and not call.may(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    ):
        return _refused(request)
    later = Later()
    response = WriteTxnMarkersResponse()
    left = 1 + sum(len(topic.partition_indexes) for want in request.markers for topic in want.topics)

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            later.resolve(response)

    for want in request.markers:
        response.markers.append(_write(want, call, done))
    done()
    return later


def _refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=want.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=refused)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in want.topics
                ],
            )
            for want in request.markers
        ]
    )


def _write(want: WritableTxnMarker, call: Call, done: Callable[[], None]) -> WritableTxnMarkerResult:
    result = WritableTxnMarkerResult(producer_id=want.producer_id)
    producer = Producer(want.producer_id, want.producer_epoch)
    marker = markers.Marker(producer, want.transaction_result, want.coordinator_epoch)
    for topic in want.topics:
        told = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(told)
        for index in topic.partition_indexes:
            place = WritableTxnMarkerPartitionResult(partition_index=index)
            told.partitions.append(place)

            where = TopicPartition(topic.name, index)

            def written(
                error: KafkaError | None,
                place: WritableTxnMarkerPartitionResult = place,
                where: TopicPartition = where,
            ) -> None:
                if error is not None:
                    place.error_code = error.code
                else:
                    _audit(want, where, call)
                done()

            if want.transaction_version >= VERSION_EPOCH_BUMP and not _is_newer(producer, where, call):
                written(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH))
            else:
                markers.write(call.node, marker, where, written)
    return result


def _audit(want: WritableTxnMarker, where: TopicPartition, call: Call) -> None:
    call.changed(
        ResourceType.TOPIC,
        where.topic,
        "commit by force" if want.transaction_result else "abort by force",
        partition=where.partition,
        producer_id=want.producer_id,
        producer_epoch=want.producer_epoch,
    )


def _is_newer(producer: Producer, where: TopicPartition, call: Call) -> bool:
    partition = call.node.partition(*where)
    known = partition.log.producers() if partition is not None else []
    return all(producer.epoch > p.producer_epoch for p in known if p.producer_id == producer.id)
