"""Error codes."""

from __future__ import annotations

import pytest
from kafka import errors

from oncestream.wire.error_codes import ErrorCode, KafkaError

# Codes that Kafka has renamed and kafka-python has not.
NEWER_NAMES = {
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


@pytest.mark.parametrize("code", list(range(-1, 134)))
def test_every_code_from_minus_one_to_133_has_a_name(code: int) -> None:
    assert ErrorCode(code).name.isupper()


def test_names_are_those_of_kafka_python() -> None:
    theirs = {code: error.message for code, error in errors.kafka_errors.items() if code in range(1, 134)}
    assert theirs | NEWER_NAMES == {code: ErrorCode(code).name for code in theirs}


def test_an_error_says_its_code_and_message() -> None:
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "bad name")
    assert (error.code, error.message, str(error)) == (17, "bad name", "INVALID_TOPIC_EXCEPTION: bad name")
    assert ErrorCode.NOT_COORDINATOR.is_retriable
    assert not ErrorCode.INVALID_PRODUCER_EPOCH.is_retriable
