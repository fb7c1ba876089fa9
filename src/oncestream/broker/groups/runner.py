"""Runs the steps of a coordinator: appends their records, replays them, answers when they are durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from oncestream.broker.alarm import Alarm, Scheduler
from oncestream.broker.clock import Clock
from oncestream.broker.groups.step import Step
from oncestream.broker.groups.timers import Timers
from oncestream.broker.partition import SyncCallback
from oncestream.broker.state_log import Producer, Replayer, StateRecord, Transaction
from oncestream.storage.writing import Appended
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.schema import Message

_BATCH_BYTES_MAX: Final = 512 * 1024
_RECORD_OVERHEAD_BYTES: Final = 20
_TOLD_CODES: Final = {  # what a client can do something about, as Apache Kafka tells it
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class GroupLog(Protocol):
    """The part of a StateLog that groups need."""

    def partition_of(self, name: str) -> int: ...
    def append(
        self, index: int, records: Sequence[StateRecord], now_ms: int, producer: Producer | None = None
    ) -> Appended: ...
    def when_durable(self, index: int, callback: SyncCallback) -> None: ...
    def replay(self, replayer: Replayer) -> int: ...


class Runner:
    """Between the groups, which do no I/O, and the log, the clock and the event loop."""

    def __init__(self, state: Replayer, log: GroupLog, clock: Clock, scheduler: Scheduler) -> None:
        self.timers = Timers(clock)
        self._state = state
        self._log = log
        self._clock = clock
        self._alarm = Alarm(scheduler, clock, self.tick)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def run(self, group_id: str, work: Callable[[Step], None]) -> None:
        step = Step(self._clock.now_ms())
        work(step)
        self.finish(group_id, step)

    def finish(self, group_id: str, step: Step, producer: Producer | None = None) -> None:
        """Writes what the step collected; its answers go out, and it goes on, when that is durable."""
        self.arm()
        if not step.records:
            self._written(group_id, step, None)
            return
        index = self._log.partition_of(group_id)
        try:
            self._append(index, step, producer)
        except KafkaError as error:
            self._written(group_id, step, error)
            return
        self._log.when_durable(index, lambda error: self._written(group_id, step, error))

    def when_durable(self, group_ids: Iterable[str], callback: SyncCallback) -> None:
        """Calls back when all that these groups did so far is durable: nothing is told that a crash undoes."""
        waiting = {self._log.partition_of(group_id) for group_id in group_ids}
        if not waiting:
            callback(None)
        failed: KafkaError | None = None

        def one_done(index: int, error: KafkaError | None) -> None:
            nonlocal failed
            failed = failed or error
            waiting.discard(index)
            if not waiting:
                callback(None if failed is None else _told(failed))

        for index in tuple(waiting):
            self._log.when_durable(index, partial(one_done, index))

    def tick(self) -> None:
        """Runs what is due."""
        while (due := self.timers.pop_due()) is not None:
            key, action = due
            self.run(key.group_id, action)
        self.arm()

    def arm(self) -> None:
        """Has the event loop call `tick` at the next deadline."""
        self._alarm.set(self.timers.next_due_ms)

    def close(self) -> None:
        self._alarm.close()

    def _append(self, index: int, step: Step, producer: Producer | None) -> None:
        transaction = None if producer is None else Transaction(index, producer.id)
        for records in _batches(step.records):
            appended = self._log.append(index, records, step.now_ms, producer)
            for i, record in enumerate(records):
                self._state.replay(record, appended.base_offset + i, transaction)

    def _written(self, group_id: str, step: Step, error: KafkaError | None) -> None:
        told = None if error is None else _told(error)
        if step.after_write is not None:
            after = Step(self._clock.now_ms())
            step.after_write(after, told)
            self.finish(group_id, after)
        # Only now: whoever gets an answer may ask again before this returns.
        for later, message in step.answers:
            if told is not None:
                _spoil(message, told.code)
            later.resolve(message)


def _batches(records: Sequence[StateRecord]) -> Iterator[Sequence[StateRecord]]:
    """One batch, unless that would be larger than a batch may be."""
    start = size_bytes = 0
    for i, (key, value) in enumerate(records):
        record_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
        if size_bytes + record_bytes > _BATCH_BYTES_MAX and i > start:
            yield records[start:i]
            start, size_bytes = i, 0
        size_bytes += record_bytes
    yield records[start:]


def _told(error: KafkaError) -> KafkaError:
    return KafkaError(_TOLD_CODES.get(error.code, error.code), error.message)


def _spoil(message: Message, code: ErrorCode) -> None:
    """What was to be told did not come about."""
    assert hasattr(message, "error_code"), (
        f"{type(message).__name__} needs its own way to tell a failed write"
    )
    message.error_code = code
