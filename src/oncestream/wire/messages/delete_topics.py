"""DeleteTopics (20), versions 1-6."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, array, int16, int32, string, structs, uuid


class DeleteTopicsRequest(Message, api_key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = structs("6+")
    topic_names: list[str] = array(string, "1-5")
    timeout_ms: int = int32()


class DeleteTopicState(Struct):
    name: str | None = string(nullable="6+", default=None)
    topic_id: bytes = uuid()


class DeleteTopicsResponse(Message, api_key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = structs()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)
