"""What those are told who may not."""

from __future__ import annotations

from typing import Final

from oncestream.wire.acl_codes import ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError

_REFUSALS: Final = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}


def refusal(kind: ResourceType) -> KafkaError:
    """The error of Kafka's clients for a resource of this type; nothing in it tells whether there is one."""
    return KafkaError(*_REFUSALS[kind])
