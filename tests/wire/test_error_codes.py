"""Error codes."""

from __future__ import annotations

import re

import pytest
from kafka import errors

from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.java_tools import KafkaTools

# Names that Kafka has changed and kafka-python has not.
NEWER_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}
ROW_OF_KAFKA = re.compile(r"<td>(\w+)</td><td>(-?\d+)</td><td>(True|False)</td>")


@pytest.mark.java
def test_every_code_has_the_name_that_apache_kafka_gives_it_and_is_retriable_there(
    kafka_tool: KafkaTools,
) -> None:
    printed = kafka_tool("org.apache.kafka.common.protocol.Errors").stdout
    theirs = {
        (int(code), name, retriable == "True") for name, code, retriable in ROW_OF_KAFKA.findall(printed)
    }
    assert {(code, code.name, code.is_retriable) for code in ErrorCode} == theirs


def test_names_are_those_of_kafka_python() -> None:
    theirs = {code: error.message for code, error in errors.kafka_errors.items() if code is not None}
    assert theirs | NEWER_NAMES == {code: ErrorCode(code).name for code in theirs}


def test_an_error_says_its_code_and_message() -> None:
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "bad name")
    assert (error.code, error.message, str(error)) == (17, "bad name", "INVALID_TOPIC_EXCEPTION: bad name")
    assert ErrorCode.NOT_COORDINATOR.is_retriable
    assert not ErrorCode.INVALID_PRODUCER_EPOCH.is_retriable
