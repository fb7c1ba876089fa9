"""A real client among ACLs: on the embedded broker and on Apache Kafka it gets the same errors."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from oncestream.wire.acl_codes import Operation, ResourceType
from tests.broker.kit import create_topic, new_name, wait_until
from tests.broker.security.rights import (
    ADMIN,
    GROUP_RIGHTS,
    NOBODY,
    PATIENCE_S,
    SECRET,
    TOPIC_RIGHTS,
    allow,
    logged_in,
)


@pytest.mark.slow
def test_a_client_gets_the_errors_it_understands(secured: str) -> None:
    writer, reader, member = TOPIC_RIGHTS[1].user, TOPIC_RIGHTS[0].user, GROUP_RIGHTS[0].user
    with logged_in(secured, ADMIN) as admin:
        topic, group = create_topic(admin).name or "", new_name()
        allow(admin, writer, ResourceType.TOPIC, topic, Operation.WRITE)
        allow(admin, reader, ResourceType.TOPIC, topic, Operation.READ)
        for user in (reader, member):
            allow(admin, user, ResourceType.GROUP, group, Operation.READ)
    wait_until(lambda: _produce(secured, writer, topic) is None, PATIENCE_S)
    wait_until(lambda: _consume(secured, reader, topic, group) == b"value", PATIENCE_S)
    assert _produce(secured, NOBODY, topic) in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,  # of the idempotent producer's first request
    )
    assert _consume(secured, writer, topic, group) == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert _consume(secured, member, topic, group) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def _client(address: str, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": SECRET,
        "log_level": 0,
    }


def _produce(address: str, user: str, topic: str) -> int | None:
    """The code of the error, if there was one."""
    codes: list[int] = []
    fatal: list[int] = []
    producer = Producer({**_client(address, user), "error_cb": lambda error: fatal.append(error.code())})
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(error.code() if error else 0))

    def done() -> bool:
        producer.poll(0.05)
        return bool(codes or fatal)

    wait_until(done, PATIENCE_S)
    told = (codes or fatal)[0]
    producer.purge()
    return told or None


def _consume(address: str, user: str, topic: str, group: str) -> bytes | int:
    """The first value, or the code of the error that came in its place."""
    consumer = Consumer(
        {
            **_client(address, user),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    found: list[bytes | int] = []

    def come() -> bool:
        message = consumer.poll(0.05)
        if message is not None:
            error = message.error()
            found.append(error.code() if error is not None else message.value() or b"")
        return bool(found)

    consumer.subscribe([topic])
    try:
        wait_until(come, PATIENCE_S)
    finally:
        consumer.close()
    return found[0]
