"""Fatal errors of librdkafka: remembered, and told with what fails because of them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException

from oncestream.errors import NotAuthorized, RequestRefused
from oncestream.messaging.failures import Faults, KafkaError

PIECE_S = 0.2  # confluent-kafka's
PURGED = KafkaError(KafkaError._PURGE_QUEUE)
FATAL = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no producer id", fatal=True)


class Client:
    """Stands for a producer: its poll and flush answer, or raise, what they are told to, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.waits: list[float] = []

    def wait(self, timeout_s: float) -> int:
        self.waits.append(timeout_s)
        answer = self._answers.pop(0) if self._answers else 0
        if isinstance(answer, Exception):
            raise answer
        return int(answer)


@pytest.fixture
def faults() -> Faults:
    return Faults("broker:9092", "")


def test_no_wait_is_so_long_that_confluent_kafka_makes_pieces_of_it(faults: Faults) -> None:
    client = Client(3)
    assert faults.waited(client.wait, 60) == 3
    assert faults.waited(client.wait, 0) == 0
    assert 0 < client.waits[0] < PIECE_S
    assert client.waits[1] == 0


def test_a_fatal_error_is_told_with_what_fails_because_of_it(faults: Faults) -> None:
    assert isinstance(faults.of(PURGED, "delivery", "pumps"), RequestRefused)
    assert faults.waited(Client(KafkaException(FATAL), 7).wait, 1) == 7
    told = faults.of(PURGED, "delivery", "pumps")
    assert isinstance(told, NotAuthorized)
    assert told.facts["subject"] == "pumps"


def test_why_records_were_thrown_away_is_waited_for(faults: Faults) -> None:
    faults.await_fatal(PURGED, Client(0, 0, KafkaException(FATAL)).wait)
    assert isinstance(faults.of(PURGED, "delivery", "pumps"), NotAuthorized)


def test_it_is_not_waited_for_without_end(faults: Faults) -> None:
    faults.await_fatal(PURGED, Client().wait, timeout_s=0.01)
    assert isinstance(faults.of(PURGED, "delivery", "pumps"), RequestRefused)


def test_other_errors_are_raised_at_once(faults: Faults) -> None:
    client = Client()
    faults.await_fatal(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), client.wait)
    assert not client.waits
    with pytest.raises(KafkaException):
        faults.waited(Client(KafkaException(PURGED)).wait, 1)
