"""One step of a coordinator: when it happens, and what is to be written and answered because of it."""

from __future__ import annotations

from collections.abc import Callable

from oncestream.broker.later import Later
from oncestream.broker.state_log import StateRecord
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.schema import Message

AfterWrite = Callable[["Step", KafkaError | None], None]


class Step:
    """Answers go out once the records are durable; then `after_write` goes on in a step of its own."""

    __slots__ = ("after_write", "answers", "now_ms", "records")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[StateRecord] = []
        self.answers: list[tuple[Later, Message]] = []
        self.after_write: AfterWrite | None = None

    def answer(self, later: Later, message: Message) -> None:
        self.answers.append((later, message))

    def write(self, *records: StateRecord) -> None:
        self.records.extend(records)

    def write_then(self, record: StateRecord, after_write: AfterWrite) -> None:
        assert self.after_write is None, "one thing to go on with per step"
        self.records.append(record)
        self.after_write = after_write
