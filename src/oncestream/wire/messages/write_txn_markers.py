"""WriteTxnMarkers (27), versions 1-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, structs


class WriteTxnMarkersRequest(Message, api_key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = structs()


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = structs()
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class WriteTxnMarkersResponse(Message, api_key=ApiKey.WRITE_TXN_MARKERS, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = structs()


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = structs()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = structs()


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
