"""Fixtures of the client tests: a client library, and new topics."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Final, Protocol

import pytest

from tests.clients.aio import Aiokafka
from tests.clients.client import TIMEOUT_S, Client
from tests.clients.confluent import Confluent
from tests.clients.kafka_python import KafkaPython

CLIENTS: Final[dict[str, Callable[[str], Client]]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
COUNTER: Final = itertools.count()


class NewTopic(Protocol):
    """Makes a topic of a name never used before and waits until it can be used."""

    def __call__(self, partitions: int = 1, **config: str) -> str: ...


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Client:
    return CLIENTS[request.param](bootstrap)


@pytest.fixture
def clients(bootstrap: str) -> list[Client]:
    return [make(bootstrap) for make in CLIENTS.values()]


@pytest.fixture
def unused_topic() -> str:
    return f"topic-{os.getpid()}-{next(COUNTER)}"


@pytest.fixture
def new_topic(bootstrap: str) -> NewTopic:
    def make(partitions: int = 1, **config: str) -> str:
        topic = f"topic-{os.getpid()}-{next(COUNTER)}"
        admin = Confluent(bootstrap)
        admin.create_topic(topic, partitions, config={k.replace("_", "."): v for k, v in config.items()})
        wait_until(lambda: admin.topics().get(topic) == partitions)
        return topic

    return make


def wait_until(condition: Callable[[], bool]) -> None:
    """Apache Kafka's brokers learn of a change after the controller has answered."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
