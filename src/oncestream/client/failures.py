"""What can go wrong between us and a broker, and what the user is told of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncestream.errors import (
    BrokerUnreachable,
    GroupInUse,
    NoAuthorizer,
    NotAuthorized,
    OncestreamError,
    ProducerFenced,
    RequestRefused,
    RequestTimedOut,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    UnknownTransaction,
)
from oncestream.wire.error_codes import ErrorCode, KafkaError

FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# What the coordinator says to a commit without a member, or a deletion, while the group has live members.
GROUP_HAS_MEMBERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
# The leader or the coordinator is elsewhere, or was not there yet.
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)

# What a user can do about a refusal that no class of its own tells.
ADVICE: Final = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "choose another name, of letters, digits, '.', '_' and '-', at most 249 of them;"
        " names that begin with __ are the broker's own"
    ),
    ErrorCode.INVALID_PARTITIONS: "give one partition or more; a topic can get more later, never fewer",
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "give at most as many copies as the cluster has brokers: the embedded broker is one"
    ),
    ErrorCode.INVALID_CONFIG: "correct that configuration: `oncestream topic describe --all` shows what there is",
    ErrorCode.POLICY_VIOLATION: "the cluster does not allow that: choose what the message allows",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller records, or raise the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send fewer records at once, or raise the topic's segment.bytes",
    ErrorCode.INVALID_RECORD: "send what the topic takes: in one that is compacted every record has a key",
    ErrorCode.INVALID_TIMESTAMP: "give records a time that the topic takes (message.timestamp.*.max.ms)",
    ErrorCode.INVALID_GROUP_ID: "give the group another name, which is not empty",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "use another group: this one's members read in another way",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "choose a shorter transaction timeout: the broker's transaction.max.timeout.ms is 15 minutes unless set"
    ),
    ErrorCode.UNSUPPORTED_VERSION: "use a broker that can do that: the embedded one, or a newer Apache Kafka",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "choose another user name or password, neither of them empty",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "choose a mechanism that the broker has switched on",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression",
}
ADVICE_ELSE: Final = "change what this names and try again; the broker's own log may say more"

_KNOWN: Final = frozenset(map(int, ErrorCode))


class ConnectionLost(Exception):
    """The connection cannot be made or has ended: what was asked may or may not have been done."""

    def __init__(self, address: object, reason: object) -> None:
        super().__init__(f"{address}: {reason}")
        self.address, self.reason = str(address), str(reason)


class ErrorAnswer(KafkaError):
    """An error code in an answer, and the topic, partition, group or transactional id that it is about."""

    def __init__(self, code: int, subject: object, message: str | None = None) -> None:
        known = ErrorCode(code) if code in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR
        super().__init__(known, f"{subject}: {message}" if message else str(subject))
        self.subject = str(subject)


def all_lost(servers: str, lost: Iterable[ConnectionLost]) -> ConnectionLost:
    """No server could be reached: the reasons, each once."""
    return ConnectionLost(servers, "; ".join(dict.fromkeys(error.reason for error in lost)))


def raise_if_error(code: int, subject: object, message: str | None = None) -> None:
    if code:
        raise ErrorAnswer(code, subject, message)


def has_moved(error: KafkaError | ConnectionLost) -> bool:
    """Whether the next attempt should look up the leader or coordinator anew."""
    return isinstance(error, ConnectionLost) or error.code in MOVED


def may_pass(error: KafkaError | ConnectionLost) -> bool:
    return isinstance(error, ConnectionLost) or error.code.is_retriable


def refusal(api: str, error: KafkaError) -> OncestreamError:
    """The error to raise for a code that no further attempt will change."""
    code = error.code
    subject = error.subject if isinstance(error, ErrorAnswer) else error.message
    if code in FENCED:
        return ProducerFenced(subject=subject, api=api)
    if code in NOT_ALLOWED:
        return NotAuthorized(api=api, subject=subject, code=code.name)
    if code in GROUP_HAS_MEMBERS:
        return GroupInUse(group=subject, code=code.name)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(topic=subject)
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return UnknownGroup(group=subject)
    if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return UnknownTransaction(transactional_id=subject)
    if code is ErrorCode.SECURITY_DISABLED:
        return NoAuthorizer(message=error.message)
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return TopicExists(topic=subject, code=code.name, message=error.message)
    return RequestRefused(
        api=api, code=code.name, message=error.message or "no reason was given", advice=advice(code)
    )


def advice(code: int) -> str:
    """What to do about a code of Kafka."""
    return ADVICE.get(ErrorCode(code), ADVICE_ELSE) if code in _KNOWN else ADVICE_ELSE


def gave_up(api: str, error: KafkaError | ConnectionLost, timeout_s: float) -> OncestreamError:
    """The error to raise when the deadline passed and the last attempt failed with `error`."""
    if isinstance(error, ConnectionLost):
        return BrokerUnreachable(address=error.address, reason=error.reason, timeout_s=round(timeout_s, 1))
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return refusal(api, error)
    return RequestTimedOut(api=api, timeout_s=round(timeout_s, 1), reason=str(error))
