"""How a tortured client ends its transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from oncestream.verify.recorder import RecordedProducer

INSIST_S: Final = 120.0


def insist(call: Callable[[], None]) -> None:
    """Whether a commit took may be unknown while the broker is away: ask again, never the other thing."""
    deadline = time.monotonic() + INSIST_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def end_after(error: KafkaException, producer: RecordedProducer) -> None:
    """Aborts where that is the way out; every other error ends the client's life."""
    if error.args[0].fatal() or not error.args[0].txn_requires_abort():
        raise error
    insist(producer.abort)
